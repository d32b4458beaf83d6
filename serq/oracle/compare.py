"""Where two traces differ: everything they hold counts, except how fast the recorder was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NOT_COMPARED = frozenset({"speed"})
ABSENT = "(absent)"
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which traces differ. ``place`` is a step, a request or the trace as a whole."""

    place: str
    field: str
    expected: Any
    got: Any
    step: int | None = None

    def __str__(self) -> str:
        expected, got = _shorten(self.expected, self.got)
        return f"{self.place}: {self.field}: expected {expected}, got {got}"


def first_difference(expected: Mapping[str, Any], got: Mapping[str, Any]) -> Difference | None:
    """The first difference: by step, then by request, then in the totals; None if the traces are equal."""
    return (
        _in_steps(expected, got)
        or _in_requests(expected.get("requests"), got.get("requests"))
        or _in_fields("trace", _totals(expected), _totals(got))
    )


def _totals(trace: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in trace.items() if name not in NOT_COMPARED}


def _in_fields(
    place: str, expected: Mapping[str, Any], got: Mapping[str, Any], step: int | None = None
) -> Difference | None:
    for name in [*expected, *(name for name in got if name not in expected)]:
        one, other = expected.get(name, ABSENT), got.get(name, ABSENT)
        if one != other:
            return Difference(place, name, one, other, step)
    return None


def _in_steps(expected: Mapping[str, Any], got: Mapping[str, Any]) -> Difference | None:
    ours, theirs = got.get("steps"), expected.get("steps")
    if ours == theirs:
        return None
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return Difference("trace", "steps", theirs, ours)
    for index, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        if one != other:
            names = expected.get("columns")
            return _in_fields(f"step {index}", _named(one, names), _named(other, names), index)
    return Difference("trace", "number of steps", len(theirs), len(ours), min(len(theirs), len(ours)))


def _named(step: Any, columns: Any) -> Mapping[str, Any]:
    """A step by field names; a digest step names them in ``columns``."""
    if isinstance(step, Mapping):
        return step
    if isinstance(step, list) and isinstance(columns, list) and len(step) == len(columns):
        return dict(zip(columns, step, strict=True))
    return {"step": step}


def _in_requests(expected: Any, got: Any) -> Difference | None:
    if expected == got or not isinstance(expected, list) or not isinstance(got, list):
        return None if expected == got else Difference("trace", "requests", expected, got)
    for one, other in zip(expected, got, strict=False):
        if one != other:
            place = f"request {one.get('id')}" if isinstance(one, Mapping) else "requests"
            return _in_fields(place, _named(one, None), _named(other, None))
    return Difference("trace", "number of requests", len(expected), len(got))


def _shorten(expected: Any, got: Any) -> tuple[str, str]:
    """Both values as text; of long ones the part around the first character that differs."""
    one, other = str(expected), str(got)
    if max(len(one), len(other)) <= _LONGEST:
        return one, other
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start = max(0, same - _LONGEST // 3)
    return _cut(one, start), _cut(other, start)


def _cut(text: str, start: int) -> str:
    end = start + _LONGEST
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
