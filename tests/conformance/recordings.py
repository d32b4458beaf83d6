"""The recorded programs: text, outcome, and what we want where we differ."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.outcome import Outcome

HERE = Path(__file__).parent
HALVES = ("A", "B")


@dataclass(frozen=True)
class Expectation:
    """A statistical program's figure: ``OBSERVATION.FIGURE`` within a relative tolerance of ``value``."""

    figure: str
    value: float
    relative_tolerance: float


@dataclass(frozen=True)
class Recording:
    """One program and what the reference implementation said to it."""

    name: str
    path: Path
    outcome: Outcome
    expectations: tuple[Expectation, ...] = field(default=())


@cache
def recordings() -> dict[str, Recording]:
    """All recordings by name."""
    return {
        row["name"]: _recording(HERE / half, row)
        for half in HALVES
        for row in map(json.loads, (HERE / half / "recordings.jsonl").read_text("utf-8").splitlines())
    }


def _recording(folder: Path, row: dict[str, Any]) -> Recording:
    outcome = Outcome(
        refused=row["stage"] if row["error"] else None,
        message=row.get("peer_message", ""),
        report=row.get("report", {}),
        series=row.get("series", {}),
    )
    expectations = tuple(
        Expectation(figure, wanted["value"], wanted["relative_tolerance"])
        for figure, wanted in row.get("expect", {}).items()
    )
    return Recording(row["name"], folder / f"{row['name']}.sq", outcome, expectations)


@cache
def deviations() -> dict[str, str]:
    """Program -> what we want instead of what is recorded."""
    with (HERE / "DEVIATIONS.tsv").open(encoding="utf-8", newline="") as table:
        return {row["name"]: row["what we want"] for row in csv.DictReader(table, delimiter="\t")}
