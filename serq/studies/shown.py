"""Which figures of a study a terminal shows, and the table of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from serq.errors import UsageError
from serq.results.tables import Table, figure
from serq.results.text import aligned

_INTERVAL: Final = ".ci95"
_DEFAULT: Final = (".ttft.mean", ".ttft.p99", ".tpot.mean", ".e2e.mean")
_MOST_COLUMNS: Final = 5
_REQUESTS: Final = "requests."
_GOODPUT: Final = "goodput.all.share"
_AS_EXPECTED: Final = {"goodput": "goodput.all.per_second", "goodput_share": _GOODPUT}
"""What `expect` calls a figure."""


def figure_columns(points: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[str]:
    """The columns that ``wanted`` names, each by its path or the end of it; without any, latencies first.

    Raises UsageError for a name that no figure has, with the nearest.
    """
    known = [name for name in points[0] if "." in name and not name.endswith(_INTERVAL)]
    if wanted:
        return [column for name in wanted for column in _matching(name, known)]
    latencies = [name for end in _DEFAULT for name in known if name.endswith(end)]
    if any(name.startswith(_REQUESTS) for name in latencies):
        latencies = [name for name in latencies if name.startswith(_REQUESTS)]
        latencies += [name for name in known if name == _GOODPUT]
    means = [name for name in known if name.startswith("observes.") and name.endswith(".mean")]
    return list(dict.fromkeys([*latencies, *means]))[:_MOST_COLUMNS]


def _matching(name: str, known: Sequence[str]) -> list[str]:
    """The columns that a name means; `ttft.p99` is that of all requests, where a program sends any."""
    name = _AS_EXPECTED.get(name, name)
    if f"{_REQUESTS}{name}" in known:
        return [f"{_REQUESTS}{name}"]
    found = [column for column in known if column == name or column.endswith("." + name)]
    if not found:
        ends = [".".join(column.split(".")[1:]) for column in known]
        close = get_close_matches(name, ends, n=1, cutoff=0.4)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        raise UsageError(f"no figure `{name}`{hint}")
    return found


def points_text(points: Sequence[Mapping[str, Any]], axes: Sequence[str], columns: Sequence[str]) -> str:
    """The table of :func:`points_shown` for a terminal."""
    return "\n".join(aligned(points_shown(points, axes, columns)))


def points_shown(points: Sequence[Mapping[str, Any]], axes: Sequence[str], columns: Sequence[str]) -> Table:
    """One row a point: its settings, its figures, each with the half-width of its 95 % interval."""
    headings = ("point", *axes, *columns)
    failed = any(point["failed"] for point in points)
    rows = [
        (
            str(point["point"]),
            *(_setting(point[axis]) for axis in axes),
            *(_cell(point, column) for column in columns),
            *((str(point["failed"]),) if failed else ()),
        )
        for point in points
    ]
    return Table((*headings, "failed") if failed else headings, tuple(rows))


def _setting(text: str) -> str:
    try:
        return figure(float(text))
    except ValueError:
        return text


def _cell(point: Mapping[str, Any], column: str) -> str:
    value, half_width = point.get(column), point.get(column + _INTERVAL)
    if value is None:
        return "-"
    return figure(value) if half_width is None else f"{figure(value)} ± {half_width:.2g}"
