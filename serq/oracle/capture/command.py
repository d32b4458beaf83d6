"""The command line of capture. argparse, because a Python that has vLLM need not have click."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serq.errors import DataError, SerqError, UsageError
from serq.oracle.capture import (
    DEFAULT_MAX_STEPS,
    Scenario,
    VllmUnavailableError,
    record,
    require_vllm,
)

_PYTHON_VARIABLE = "SERQ_VLLM_PYTHON"
_SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where traces go: one file, or a folder in which each trace has its scenario's file name."""

    out: Path
    raises: Path | None = None

    def trace_of(self, source: Path) -> Path:
        """The file for the trace of the scenario read from ``source``."""
        return self.out / source.name if self.out.is_dir() else self.out


def main(arguments: Sequence[str] | None = None) -> int:
    """Record scenarios; 0, or the exit code of the error that was printed."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(arguments)
    if options.python is not None and not _is_this_python(options.python):
        return _run_in(options.python, arguments)
    try:
        require_vllm()
        capture_files(options.scenarios, Destination(options.out, options.raises), options.max_steps)
    except SerqError as error:
        print(f"serq oracle capture: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _is_this_python(python: Path) -> bool:
    """Compared by name: interpreters of different environments may be links to one file."""
    return python.absolute() == Path(sys.executable).absolute()


def _run_in(python: Path, arguments: Sequence[str]) -> int:
    """The same command in another interpreter, which finds this serq first."""
    import subprocess

    import serq

    here = str(Path(serq.__file__).parents[1])
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    command = [str(python), "-m", "serq.oracle.capture", *arguments, "--python", str(python)]
    try:
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode
    except OSError as error:
        print(f"serq oracle capture: {python} cannot be run: {error}", file=sys.stderr)
        return VllmUnavailableError.exit_code


def capture_files(sources: Sequence[Path], destination: Destination, max_steps: int) -> None:
    """Record every scenario among ``sources``, files or folders of files.

    What vLLM raises on a scenario ends the command, unless ``destination.raises`` is a folder to keep such
    scenarios in. Raises DataError for a file that is no scenario, UsageError for several into one file.
    """
    paths = list(_scenario_files(sources))
    if len(paths) > 1 and not destination.out.is_dir():
        raise UsageError(f"{len(paths)} scenarios need a folder after -o, and {destination.out} is none")
    for path in paths:
        _capture_file(path, destination, max_steps)


def _capture_file(path: Path, destination: Destination, max_steps: int) -> None:
    from serq.oracle.capture.trace import write

    raw = read_scenario(path)
    try:
        scenario = Scenario.from_json(raw)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    try:
        trace = record(scenario, max_steps)
    except SerqError:
        raise
    except Exception as error:  # whatever the real scheduler raises is a finding about this scenario
        reason = f"{type(error).__name__}: {error}"
        if destination.raises is None:
            raise DataError(f"{path}: vLLM raised {reason}") from error
        finding = {"scenario": raw, "raised": reason}
        (destination.raises / path.name).write_text(json.dumps(finding, separators=(",", ":")))
        return
    write(destination.trace_of(path), raw, trace)


def read_scenario(path: Path) -> dict[str, Any]:
    """The scenario object in a file, which may also hold its trace. Raises DataError."""
    try:
        data = path.read_bytes()
        content = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a readable scenario: {error}") from error
    scenario = content.get("scenario", content) if isinstance(content, dict) else None
    if not isinstance(scenario, dict):
        raise DataError(f"{path}: a scenario is a JSON object")
    return scenario


def _scenario_files(sources: Iterable[Path]) -> Iterable[Path]:
    for source in sources:
        if source.is_dir():
            yield from sorted(p for p in source.iterdir() if p.name.endswith(_SUFFIXES))
        else:
            yield source


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="serq oracle capture",
        description="Record how the installed vLLM schedules a scenario, on a virtual clock.",
    )
    parser.add_argument(
        "scenarios", nargs="+", type=Path, metavar="SCENARIO", help="a scenario file, or a folder of them"
    )
    out_help = "the trace (compressed if it ends in .gz), or a folder"
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help=out_help)
    raises_help = "keep scenarios on which vLLM raises in this folder, and go on"
    parser.add_argument("--raises", type=Path, metavar="FOLDER", help=raises_help)
    python_help = f"the Python that has vLLM (default: ${_PYTHON_VARIABLE}, else this one)"
    default = os.environ.get(_PYTHON_VARIABLE)
    parser.add_argument("--python", type=Path, metavar="PATH", default=default, help=python_help)
    steps_help = "give a scenario up after so many steps"
    parser.add_argument("--max-steps", type=int, default=DEFAULT_MAX_STEPS, metavar="N", help=steps_help)
    return parser
