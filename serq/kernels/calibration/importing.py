"""Tables of others as tables of the project: what is taken over, what is left out, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import msgspec

from serq.errors import DataError
from serq.kernels.tables.sidecar import Provenance, Sidecar

Points = Mapping[tuple[float, ...], float]


@dataclass(frozen=True, slots=True)
class ImportedTable:
    """One table: seconds of a call at every point of a full grid; ``left_out`` points fit into none."""

    operator: str
    axes: tuple[str, ...]
    points: Points
    calls: int = 1
    when: str = ""
    left_out: int = 0
    method: str = ""


def full_grid(points: Points) -> tuple[Points, int]:
    """The points that form a full grid, and how many had to go.

    As long as a combination is missing, the value of an axis goes that misses the largest share of its own.
    """
    kept = dict(points)
    while kept:
        axes = range(len(next(iter(kept))))
        ticks = [sorted({at[axis] for at in kept}) for axis in axes]
        missing = [at for at in product(*ticks) if at not in kept]
        if not missing:
            break
        size = 1
        for values in ticks:
            size *= len(values)
        gaps = {
            (axis, tick): sum(at[axis] == tick for at in missing) * len(ticks[axis]) / size
            for axis in axes
            for tick in ticks[axis]
        }
        axis, tick = max(gaps, key=lambda place: (gaps[place], place))
        kept = {at: value for at, value in kept.items() if at[axis] != tick}
    return kept, len(points) - len(kept)


def gridded(
    operator: str, axes: tuple[str, ...], points: Points, *, calls: int, when: str = ""
) -> Iterator[ImportedTable]:
    """A table of what forms a full grid; none where there are no points."""
    kept, left_out = full_grid(points)
    if kept:
        yield ImportedTable(operator, axes, kept, calls, when, left_out)


def write_tables(
    tables: Sequence[ImportedTable],
    folder: Path,
    provenance: Provenance,
    dimensions: dict[str, str | int],
) -> None:
    """Write CSV files and their metadata. Raises DataError where the folder already has tables."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.csv")):
        raise DataError(f"{folder}: has tables; name another folder, or remove them")
    for table in tables:
        method = "; ".join(filter(None, (provenance.method, table.method)))
        sidecar = Sidecar(
            schema=1,
            operator=table.operator,
            axes=table.axes,
            value="seconds",
            unit="s",
            provenance=msgspec.structs.replace(provenance, method=method),
            calls=table.calls,
            when=table.when,
            dimensions=dimensions,
        )
        rows = [",".join((*table.axes, "seconds"))]
        for at, seconds in sorted(table.points.items()):
            rows.append(",".join((*(f"{value:g}" for value in at), repr(seconds))))
        (folder / f"{table.operator}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        encoded = msgspec.json.format(msgspec.json.encode(sidecar), indent=1)
        (folder / f"{table.operator}.json").write_bytes(encoded + b"\n")
