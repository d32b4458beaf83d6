"""A report as one flat row of figures, which a table of many runs can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from serq.results import Report

Figure = float | int | None
"""A figure of a report; None where it is not finite or the run does not determine it."""

_NOT_FIGURES: Final = frozenset({"horizon", "warmup", "seed", "options", "name", "member"})
"""What a run was given, and what its rows are called."""


def figures(report: Report) -> dict[str, Figure]:
    """Every number of ``report.to_dict()`` under the path to it.

    `observes.ttft.mean`, `stages.engine.utilization`, `engines.npu[2].ttft.p99`: a list of rows is read by
    the names of its rows, in the order of the report.
    """
    return dict(_flatten(report.to_dict(), ""))


def _flatten(value: Any, path: str) -> Iterator[tuple[str, Figure]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _NOT_FIGURES:
                yield from _flatten(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        rows = [row for row in value if isinstance(row, Mapping) and "name" in row]
        for row in rows:
            yield from _flatten(row, f"{path}.{_row_name(row, rows)}")
    elif isinstance(value, bool):
        yield path, int(value)
    elif value is None or isinstance(value, int | float):
        yield path, value


def _row_name(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> str:
    """The name of a row; that of a family's member carries its index where the name alone does not."""
    name = str(row["name"])
    if "member" in row and sum(other["name"] == name for other in rows) > 1:
        return f"{name}[{row['member']}]"
    return name
