"""A report as one flat row of figures, which a table of many runs can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan
from typing import Any, Final

from serq.results import Report
from serq.studies.measures import request_measures

Figure = float | int | None
"""A figure of a report; None where it is not finite or the run does not determine it."""

_NAMES: Final = ("name", "objective", "about")
"""The columns that say what a row is called."""
_NOT_FIGURES: Final = frozenset({"horizon", "warmup", "seed", "options", "name", "member"})
"""What a run was given, and what its rows are called."""


Path = tuple[str, ...]
"""The names on the way to a figure: table, row, column."""


def figures(report: Report) -> dict[str, Figure]:
    """Every number of ``report.to_dict()`` under the path to it.

    `observes.ttft.mean`, `stages.engine.utilization`, `engines.npu[2].ttft.p99`, `goodput.all.per_second`:
    a list of rows is read by the names of its rows, in the order of the report. Behind them stand those of
    all requests together: `requests.ttft.p99`, `requests.per_second`, `requests.output_tokens_per_second`.
    """
    found = {".".join(path): figure for path, figure in figure_paths(report.to_dict()).items()}
    return {**found, **dict(_of_all_requests(report))}


def _of_all_requests(report: Report) -> Iterator[tuple[str, Figure]]:
    for name, measure in request_measures(report):
        value = None if isnan(measure.value) else measure.value
        if name.column == "per second":
            counted = "" if name.row == "requests" else f"{name.row.replace(' ', '_')}_"
            yield f"requests.{counted}per_second", value
        else:
            yield f"requests.{name.row}.{name.column}", value


def figure_paths(plain: Mapping[str, Any]) -> dict[Path, Figure]:
    """Every number of a report that is plain data."""
    return dict(_flatten(plain, ()))


def _flatten(value: Any, path: Path) -> Iterator[tuple[Path, Figure]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _NOT_FIGURES:
                yield from _flatten(inner, (*path, str(name)))
    elif isinstance(value, list):
        rows = [row for row in value if isinstance(row, Mapping)]
        for row in rows:
            name = _row_name(row, rows)
            if name is not None:
                yield from _flatten(row, (*path, name))
    elif isinstance(value, bool):
        yield path, int(value)
    elif value is None or isinstance(value, int | float):
        yield path, value


def _row_name(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> str | None:
    """The name of a row; that of a family's member carries its index where the name alone does not."""
    named = next((name for name in _NAMES if name in row), None)
    if named is None:
        return None
    name = str(row[named])
    if "member" in row and sum(other[named] == name for other in rows) > 1:
        return f"{name}[{row['member']}]"
    return name
