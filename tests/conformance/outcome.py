"""What a program came to, and where two outcomes differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-12
"""For figures that are zero but for rounding, such as a variance of equal samples."""

Stage = Literal["compile", "run"]
Columns = dict[str, list[Any]]
COLUMNS = ("samples", "times", "sessions", "turns")
NOT_COMPARED = frozenset({"seed"})


@dataclass(frozen=True)
class Outcome:
    """A report with every observation's series, or the stage that refused the program and why."""

    refused: Stage | None = None
    message: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    series: dict[str, Columns] = field(default_factory=dict)


def number(value: float | str | None) -> float:
    """A figure of a recording: null is NaN, the strings are infinities and NaN."""
    return math.nan if value is None else float(value)


def same_number(expected: float | str | None, actual: float | str | None) -> bool:
    """Whether two figures agree: 1e-9 relative, -0 equals 0, NaN equals NaN."""
    a, b = number(expected), number(actual)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)


def differences(expected: Outcome, actual: Outcome) -> list[str]:
    """Every difference between two outcomes, in words; empty where they agree."""
    if expected.refused or actual.refused:
        if expected.refused == actual.refused:
            return []
        return [f"expected {_verdict(expected)}, got {_verdict(actual)}"]
    return [*_series(expected.series, actual.series), *_figures("report", expected.report, actual.report)]


def _verdict(outcome: Outcome) -> str:
    return f"refused at {outcome.refused}: {outcome.message}" if outcome.refused else "a report"


def _series(expected: Mapping[str, Columns], actual: Mapping[str, Columns]) -> Iterator[str]:
    if expected.keys() != actual.keys():
        yield f"series: expected {sorted(expected)}, got {sorted(actual)}"
    for name in expected.keys() & actual.keys():
        for column in COLUMNS:
            yield from _column(f"{name}.{column}", expected[name][column], actual[name][column])


def _column(place: str, expected: Sequence[Any], actual: Sequence[Any]) -> Iterator[str]:
    if len(expected) != len(actual):
        yield f"{place}: expected {len(expected)} entries, got {len(actual)}"
    for index, (want, got) in enumerate(zip(expected, actual, strict=False)):
        if not same_number(want, got):
            yield f"{place}[{index}]: expected {want}, got {got}"
            return


def _figures(place: str, expected: Any, actual: Any) -> Iterator[str]:
    """Figures of the expected report; what only the actual one has is ours to add."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            yield f"{place}: missing"
            return
        for key in expected.keys() - NOT_COMPARED:
            if key == "cv2" and _cancels(expected):
                continue
            if key not in actual:
                yield f"{place}.{key}: missing"
            else:
                yield from _figures(f"{place}.{key}", expected[key], actual[key])
    elif isinstance(expected, list):
        if not isinstance(actual, list) or len(expected) != len(actual):
            yield f"{place}: expected {len(expected)} rows, got {actual}"
            return
        for index, (want, got) in enumerate(zip(expected, actual, strict=True)):
            name = want.get("name", "") if isinstance(want, dict) else ""
            yield from _figures(f"{place}[{index} {name}]", want, got)
    elif isinstance(expected, str):
        if expected != actual:
            yield f"{place}: expected {expected}, got {actual}"
    elif not _same_figure(expected, actual):
        yield f"{place}: expected {expected}, got {actual}"


def _cancels(summary: dict[str, Any]) -> bool:
    """Whether samples of both signs have a mean of nothing but rounding: a ratio to it says nothing."""
    return isinstance(summary.get("mean"), float) and abs(summary["mean"]) < ABSOLUTE_TOLERANCE


def _same_figure(expected: float | None, actual: float | str | None) -> bool:
    """In a report null stands for any figure that is not finite (an infinite ``ci``, a mean of nothing)."""
    if expected is None:
        return not math.isfinite(number(actual))
    return actual is not None and same_number(expected, actual)
