"""Our outcome of a program: in this process, or through the command line."""

from __future__ import annotations

import csv
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import serq
from serq.errors import CompileError, DataError, RunError
from serq.results import Report
from tests.conformance.outcome import Columns, Outcome
from tests.shared import ROOT


def compiled_and_run(
    path: Path | None = None, *, source: str | None = None, trace: Path | None = None
) -> tuple[Outcome, Report | None]:
    """Compile and run through the library; anything but an error of ours is a failure of the test."""
    try:
        program = serq.compile(path, source=source, trace=trace)
    except CompileError as error:
        return Outcome(refused="compile", message=str(error)), None
    try:
        report = serq.run(program)
    except (RunError, DataError) as error:
        return Outcome(refused="run", message=str(error)), None
    return Outcome(report=report.to_dict(), series=_series_of(report)), report


def outcome_here(
    path: Path | None = None, *, source: str | None = None, trace: Path | None = None
) -> Outcome:
    """The outcome alone."""
    return compiled_and_run(path, source=source, trace=trace)[0]


def _series_of(report: Report) -> dict[str, Columns]:
    return {
        name: {
            "samples": [_plain(value) for value in series.values],
            "times": list(series.times),
            "sessions": list(series.sessions),
            "turns": [_plain(turn) for turn in series.turns],
        }
        for name, series in report.records.series.items()
    }


def _plain(value: float) -> float | str:
    """A sample as the recordings have it: infinities and NaN are strings."""
    return value if math.isfinite(value) else str(value)


def command_line(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`serq ARGUMENTS` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "serq", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def outcome_of_command(path: Path, folder: Path) -> Outcome:
    """`serq run FILE --json --dump DIR`: the report from stdout, the series from the CSV files."""
    done = command_line("run", path, "--json", "--dump", folder)
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode != 0:
        assert re.match(r"error: |.*: error\[E", done.stderr), done.stderr
        checked = command_line("check", path)
        return Outcome(refused="run" if checked.returncode == 0 else "compile", message=done.stderr)
    report = json.loads(done.stdout)
    return Outcome(
        report=report, series={name: _dumped(folder / f"{name}.csv") for name in report["observes"]}
    )


def _dumped(path: Path) -> Columns:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns: dict[str, list[Any]] = {
        "samples": [row["value"] for row in rows],
        "times": [float(row["time"]) for row in rows],
        "sessions": [int(row["session"]) for row in rows],
        "turns": [float(row["turn"]) for row in rows],
    }
    return columns
