"""The folder of a study: every outcome is kept when it exists, and a study that died goes on from there.

``study.json`` says what the study is; ``runs/NNNNNN.json`` holds one run each, written under another name and
renamed when complete; the tables are made of the runs at the end. Seconds spent stand in ``timing.csv``
alone, so every other file has the same bytes whether or not the study was interrupted.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from serq.errors import DataError, UsageError
from serq.results.dump import make_folder
from serq.results.whole_files import write_whole
from serq.studies.task import Outcome

DESCRIPTION: Final = "study.json"
RUNS: Final = "runs"
TIMING: Final = "timing.csv"


class StudyFolder:
    """The results of one study on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(
        cls, path: str | Path, description: Mapping[str, Any], *, overwrite: bool = False
    ) -> StudyFolder:
        """The folder of the study that ``description`` (plain data) describes, made or found again.

        Raises UsageError where the folder holds something else, DataError where it cannot be written.
        """
        folder = cls(make_folder(path))
        file = folder.path / DESCRIPTION
        if overwrite and file.exists():
            shutil.rmtree(folder.path)
            make_folder(path)
        if not file.exists():
            if any(folder.path.iterdir()):
                raise UsageError(f"{path} holds other files: give a new folder, or that of an earlier study")
            (folder.path / RUNS).mkdir()
            write_whole(file, _text(description))
        else:
            folder._must_be(description)
            for unfinished in folder.path.rglob(".*.unfinished"):
                unfinished.unlink()
        return folder

    def _must_be(self, description: Mapping[str, Any]) -> None:
        found = self.description()
        differing = [name for name in {**found, **description} if found.get(name) != description.get(name)]
        if differing:
            raise UsageError(
                f"{self.path} holds another study (another {', '.join(sorted(differing))}): "
                "give a new folder, or `--overwrite`"
            )

    def description(self) -> dict[str, Any]:
        """What the study is, as it was described. Raises DataError for a folder of no study."""
        return _read(self.path / DESCRIPTION)

    def done(self) -> set[int]:
        """The runs that are there."""
        return {int(file.stem) for file in (self.path / RUNS).glob("*.json")}

    def keep(self, outcome: Outcome, labels: Mapping[str, Any]) -> None:
        """Write one outcome, with what identifies it."""
        row = {**labels, "failure": outcome.failure, "figures": outcome.figures}
        write_whole(self.path / RUNS / f"{outcome.index:06d}.json", _text(row))
        with open(self.path / TIMING, "a", encoding="utf-8") as file:
            if file.tell() == 0:
                file.write("run,wall_seconds,cpu_seconds\n")
            file.write(f"{outcome.index},{outcome.wall:.6f},{outcome.cpu:.6f}\n")

    def runs(self) -> list[dict[str, Any]]:
        """Every run that is there, in order: ``run``, its labels, ``failure``, ``figures``."""
        files = sorted((self.path / RUNS).glob("*.json"), key=lambda file: int(file.stem))
        return [{"run": int(file.stem), **_read(file)} for file in files]


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise DataError(f"{path}: is not JSON ({error})") from None
    if not isinstance(data, dict):
        raise DataError(f"{path}: is not what a study writes")
    return data
