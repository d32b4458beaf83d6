"""A table of measured latencies of one operator: a CSV file and its metadata."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from serq.errors import DataError, RunError
from serq.kernels.executor import Evidence, OperatorPrice
from serq.kernels.step_batch import BatchRow
from serq.kernels.step_shape import canonical_rows, parse_shape, shape_text
from serq.kernels.tables.grid import Extrapolation, Grid
from serq.kernels.tables.quantities import QUANTITIES, StepSums
from serq.kernels.tables.sidecar import SECONDS, SHAPE, Sidecar, read_sidecar
from serq.source import read_text


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """What one operator of a step takes, in seconds a call: over a grid, or at whole steps."""

    path: Path
    sidecar: Sidecar
    points: Grid | StepPoints

    @property
    def needs_rows(self) -> bool:
        """Whether a price needs the rows of the step."""
        return isinstance(self.points, StepPoints)

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
        if sidecar.axes == (SHAPE,):
            return cls(path, sidecar, StepPoints.read(path, sidecar))
        points: dict[tuple[float, ...], float] = {}
        for line, texts, text in _rows(path, sidecar):
            point = tuple(
                _number(path, line, axis, part) for axis, part in zip(sidecar.axes, texts, strict=True)
            )
            value = _time(path, line, sidecar, text)
            if point in points:
                raise DataError(f"{path}:{line}: this point was measured in a row before")
            points[point] = value
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
        if isinstance(self.points, StepPoints):
            evidence = Evidence(sidecar.evidence)
            return OperatorPrice(
                sidecar.operator, self.points.at(sums.rows, sidecar.operator) * sidecar.calls, evidence
            )
        at = [float(QUANTITIES[axis](sums)) for axis in sidecar.axes]
        reading = self.points.read(at, policy, sidecar.operator)
        evidence = reading.evidence
        if sidecar.evidence == "assumed" and evidence is not Evidence.EXTRAPOLATED:
            evidence = Evidence.ASSUMED
        return OperatorPrice(sidecar.operator, reading.value * sidecar.calls, evidence, reading.outside)


@dataclass(frozen=True, slots=True)
class StepPoints:
    """Seconds at whole steps: there is nothing between them."""

    context_step: int
    seconds: Mapping[str, float]

    @classmethod
    def read(cls, path: Path, sidecar: Sidecar) -> StepPoints:
        """The rows of a table over `shape`. Raises DataError with file and line."""
        seconds: dict[str, float] = {}
        for line, (text,), value in _rows(path, sidecar):
            try:
                rows = parse_shape(text).rows
            except ValueError as error:
                raise DataError(f"{path}:{line}: column `shape`: {error}") from None
            shape = shape_text(canonical_rows(rows, sidecar.context_step))
            if shape != text:
                raise DataError(f"{path}:{line}: column `shape`: `{text}` is written `{shape}`")
            if shape in seconds:
                raise DataError(f"{path}:{line}: this step was measured in a row before")
            seconds[shape] = _time(path, line, sidecar, value)
        if not seconds:
            raise DataError(f"table {path}: has no rows")
        return cls(sidecar.context_step, seconds)

    def at(self, rows: tuple[BatchRow, ...], operator: str) -> float:
        """What was measured at a step of this shape. Raises RunError where nothing was."""
        shape = shape_text(canonical_rows(rows, self.context_step))
        found = self.seconds.get(shape)
        if found is None:
            raise RunError(f"`{operator}` was not measured at a step `{shape}`", code="not-measured")
        return found


def _rows(path: Path, sidecar: Sidecar) -> Iterator[tuple[int, list[str], str]]:
    """Line, point and value of every row, as texts. Raises DataError for columns that do not fit."""
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
        *point, value = (row[place] for place in places)
        yield line, point, value


def _time(path: Path, line: int, sidecar: Sidecar, text: str) -> float:
    """Seconds. Raises DataError for what is no time."""
    value = _number(path, line, sidecar.value, text)
    if not value > 0.0:
        raise DataError(f"{path}:{line}: column `{sidecar.value}`: {value:g} is no time")
    return value * SECONDS[sidecar.unit]


def _number(path: Path, line: int, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{path}:{line}: column `{column}`: `{text}` is not a number") from None
    if not isfinite(value):
        raise DataError(f"{path}:{line}: column `{column}`: `{text}` is not a finite number")
    return value
