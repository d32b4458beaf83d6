"""A table of measured latencies of one operator: a CSV file and its metadata."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from serq.errors import DataError
from serq.kernels.executor import OperatorPrice
from serq.kernels.tables.grid import Extrapolation, Grid
from serq.kernels.tables.quantities import QUANTITIES, StepSums
from serq.kernels.tables.sidecar import SECONDS, Sidecar, read_sidecar
from serq.source import read_text


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """What one operator of a step takes, in seconds a call."""

    path: Path
    sidecar: Sidecar
    grid: Grid

    @classmethod
    def read(cls, path: Path) -> OperatorTable:
        """The table at ``path``, with the metadata beside it. Raises DataError with file and line."""
        beside = [path.with_suffix(suffix) for suffix in (".toml", ".json")]
        found = [file for file in beside if file.exists()]
        if len(found) != 1:
            names = f"{beside[0].name} or {beside[1].name}"
            what = "has both" if found else "has no metadata beside it: write"
            raise DataError(f"table {path}: {what} {names}" + (", one too many" if found else ""))
        sidecar = read_sidecar(found[0])
        points: dict[tuple[float, ...], float] = {}
        for line, point, value in _rows(path, sidecar):
            if point in points:
                raise DataError(f"{path}:{line}: this point was measured in a row before")
            points[point] = value * SECONDS[sidecar.unit]
        if not points:
            raise DataError(f"table {path}: has no rows")
        try:
            return cls(path, sidecar, Grid(sidecar.axes, points))
        except ValueError as error:
            raise DataError(f"table {path}: {error}") from None

    def price(self, sums: StepSums, policy: Extrapolation) -> OperatorPrice | None:
        """What the operator takes in a step; None where the step has none of it."""
        sidecar = self.sidecar
        if sidecar.when and not QUANTITIES[sidecar.when](sums):
            return None
        at = [float(QUANTITIES[axis](sums)) for axis in sidecar.axes]
        reading = self.grid.read(at, policy, sidecar.operator)
        return OperatorPrice(
            sidecar.operator, reading.value * sidecar.calls, reading.evidence, reading.outside
        )


def _rows(path: Path, sidecar: Sidecar) -> Iterator[tuple[int, tuple[float, ...], float]]:
    """Line, point and value of every row. Raises DataError for a row that is not all numbers."""
    reader = csv.reader(read_text(path, "table").splitlines())
    header = [name.strip() for name in next(reader, [])]
    wanted = (*sidecar.axes, sidecar.value)
    for name in wanted:
        if header.count(name) != 1:
            times = "no" if name not in header else "more than one"
            raise DataError(f"{path}:1: {times} column `{name}`; there are {', '.join(header) or 'none'}")
    for name in header:
        if name not in wanted and name not in sidecar.notes:
            raise DataError(f"{path}:1: nothing reads column `{name}`; name it under `notes` in the metadata")
    places = [header.index(name) for name in wanted]
    for row in reader:
        line = reader.line_num
        if not row:
            continue
        if len(row) != len(header):
            raise DataError(f"{path}:{line}: {len(row)} values for {len(header)} columns")
        *point, value = (_number(path, line, header[place], row[place]) for place in places)
        if not value > 0.0:
            raise DataError(f"{path}:{line}: column `{sidecar.value}`: {value:g} is no time")
        yield line, tuple(point), value


def _number(path: Path, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{path}:{line}: column `{column}`: `{text}` is not a number") from None
    if not isfinite(value):
        raise DataError(f"{path}:{line}: column `{column}`: `{text}` is not a finite number")
    return value
