"""Every sample of a run as CSV files, one an observation (R-B-119)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from serq.errors import DataError
from serq.runtime.records import Series

_HEADER: Final = "time,session,turn,value\n"
_RESERVED: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])", re.IGNORECASE)
"""Names that Windows keeps for devices."""
_LONGEST: Final = 60


def dump_series(folder: str | Path, series: Mapping[str, Series]) -> list[Path]:
    """Write ``folder/NAME.csv`` for every observation; the folder is made where it is missing.

    Raises DataError where the folder or a file cannot be written.
    """
    target = make_folder(folder)
    try:
        paths = [target / name for name in file_names(series)]
        for path, samples in zip(paths, series.values(), strict=True):
            _write(path, samples)
    except OSError as error:
        raise DataError(f"{error.filename}: cannot be written ({error.strerror})") from None
    return paths


def make_folder(folder: str | Path) -> Path:
    """Make ``folder`` where it is missing. Raises DataError where nothing can be written into it."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{target}: cannot be made a folder ({error.strerror})") from None
    if not os.access(target, os.W_OK | os.X_OK):
        raise DataError(f"{target}: cannot be written (permission denied)")
    return target


def file_names(names: Iterable[str]) -> list[str]:
    """A file name for every observation, different from each other on every file system.

    A name that is a plain word is kept; what a file name cannot hold everywhere is percent-encoded.
    """
    taken: set[str] = set()
    out: list[str] = []
    for name in names:
        stem = name if name.isidentifier() else quote(name, safe="")
        stem = f"_{stem}" if _RESERVED.fullmatch(stem) else stem[:_LONGEST]
        choice, number = stem, 1
        while choice.casefold() in taken:
            number += 1
            choice = f"{stem}~{number}"
        taken.add(choice.casefold())
        out.append(f"{choice}.csv")
    return out


def _write(path: Path, series: Series) -> None:
    rows = zip(series.times, series.sessions, series.turns, series.values, strict=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_HEADER)
        file.writelines(
            f"{_number(time)},{session},{_number(turn)},{_number(value)}\n"
            for time, session, turn, value in rows
        )


def _number(value: float) -> str:
    """The shortest text that reads back as the same number; whole numbers without a fraction."""
    text = repr(float(value))
    return text.removesuffix(".0")
