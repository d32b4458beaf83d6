"""Fitting the roofline to measured tables: an efficiency a group of operators, with its error by hold-out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Final

from serq.errors import DataError
from serq.ir.serving import Executor as DeclaredExecutor
from serq.ir.serving import ExecutorOption
from serq.kernels.calibration.plan import step_at
from serq.kernels.registry import PricedStage, create_executor
from serq.kernels.step_batch import StepBatch
from serq.kernels.tables.factory import read_tables
from serq.kernels.tables.grid import Grid
from serq.kernels.tables.operator_table import OperatorTable
from serq.kernels.tables.sidecar import Provenance

OPERATORS: Final[Mapping[str, tuple[str, str]]] = {
    "attention_projections": ("linear", "attention_projections"),
    "gdn_projections": ("linear", "gdn_projections"),
    "mlp": ("linear", "mlp"),
    "router_and_shared_expert": ("linear", "router_and_shared_expert"),
    "attention_decodes": ("attention", "attention"),
    "attention_prefills": ("attention", "attention"),
    "attention_mixed": ("attention", "attention"),
    "gdn_decodes": ("gdn", "gdn"),
    "gdn_prefills": ("gdn", "gdn"),
    "experts": ("experts", "experts"),
    "lm_head": ("lm_head", "lm_head"),
}
"""Table of a calibration -> the group whose efficiency it tells, and the operator of the roofline."""

LOWEST, HIGHEST = 1e-3, 1.5
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of predicted times, absolute values: their mean and the largest."""

    mean: float
    worst: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Errors | None:
        """Of (predicted, measured) times; None without any."""
        errors = [abs(predicted / measured - 1.0) for predicted, measured in pairs]
        return cls(sum(errors) / len(errors), max(errors)) if errors else None


@dataclass(frozen=True, slots=True)
class FittedGroup:
    """One group: its efficiency, the tokens of its points, and how far off predictions were.

    ``assumed`` is the roofline before, ``held_out`` the fitted one at points that it was not fitted to,
    ``interpolated`` the tables at points that were left out of them. ``at_limit``: no efficiency fits.
    """

    name: str
    points: int
    efficiency: float
    tokens: tuple[int, int]
    assumed: Errors | None
    held_out: Errors | None
    interpolated: Errors | None

    @property
    def at_limit(self) -> bool:
        """Whether the best efficiency is no share of these peaks: they belong to another device."""
        return self.efficiency <= LOWEST * 1.01 or self.efficiency >= HIGHEST * 0.99


@dataclass(frozen=True, slots=True)
class _Point:
    operator: str
    batch: StepBatch
    seconds: float


Options = Mapping[str, str | int | float]


def fit(folder: Path, options: Options) -> tuple[list[FittedGroup], Provenance]:
    """Fit every group that the tables of ``folder`` measured.

    ``options`` are those of a `roofline` executor: model, device, shares, peaks. Raises DataError where the
    tables cannot be read or are of nothing that a roofline has, RunError for options that cannot be met.
    """
    tables = [table for table in read_tables(folder) if table.sidecar.operator in OPERATORS]
    if not tables:
        raise DataError(f"tables {folder}: no operator of a calibration; `serq calibrate run` measures them")
    groups: dict[str, list[OperatorTable]] = {}
    for table in tables:
        groups.setdefault(OPERATORS[table.sidecar.operator][0], []).append(table)
    found = [_fit_group(name, members, options) for name, members in groups.items()]
    return found, tables[0].sidecar.provenance


def _fit_group(name: str, tables: Sequence[OperatorTable], options: Options) -> FittedGroup:
    points = [point for table in tables for point in _points(table)]
    batches = [point.batch.tokens for point in points]
    prices = _Prices(name, options)
    efficiency = _best(prices, points)
    folds = min(FOLDS, len(points))
    held_out: list[tuple[float, float]] = []
    for fold in range(folds if folds > 1 else 0):
        rest = [point for place, point in enumerate(points) if place % folds != fold]
        held_out += prices.pairs(_best(prices, rest), points[fold::folds])
    between = [pair for table in tables for pair in _left_out(table)]
    return FittedGroup(
        name,
        len(points),
        efficiency,
        (min(batches), max(batches)),
        Errors.of(prices.pairs(None, points)),
        Errors.of(held_out),
        Errors.of(between),
    )


def _points(table: OperatorTable) -> Iterator[_Point]:
    if not isinstance(table.points, Grid):
        raise DataError(f"table {table.path}: a roofline is fitted to tables over quantities, not to steps")
    operator = OPERATORS[table.sidecar.operator][1]
    for at, seconds in table.points.items():
        yield _Point(operator, step_at(table.sidecar.axes, at), seconds * table.sidecar.calls)


class _Prices:
    """What the roofline says at the points of a group, at any efficiency."""

    def __init__(self, group: str, options: Options) -> None:
        self._group, self._options = group, options

    def pairs(self, efficiency: float | None, points: Sequence[_Point]) -> list[tuple[float, float]]:
        """(predicted, measured) seconds; None: at the efficiency that is assumed."""
        given = dict(self._options)
        if efficiency is not None:
            given[f"{self._group}_efficiency"] = efficiency
        options = tuple(ExecutorOption(name, value) for name, value in given.items())
        built = create_executor(DeclaredExecutor("fit", "roofline", options), PricedStage("fit"))
        found = []
        for point in points:
            operators = built.executor.price(point.batch).operators
            seconds = next(op.seconds for op in operators if op.operator == point.operator)
            found.append((seconds, point.seconds))
        return found


def _best(prices: _Prices, points: Sequence[_Point]) -> float:
    """The efficiency with the least squares of log(predicted / measured)."""

    def loss(place: float) -> float:
        return sum(log(guess / seen) ** 2 for guess, seen in prices.pairs(exp(place), points))

    return exp(_least(loss, log(LOWEST), log(HIGHEST)))


def _least(loss: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one minimum has it: golden section to 1e-4."""
    ratio = (5**0.5 - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 1e-4:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    return (low + high) / 2


def _left_out(table: OperatorTable) -> Iterator[tuple[float, float]]:
    """(interpolated, measured) at every inner value of every axis, that value left out of the table."""
    grid = table.points
    assert isinstance(grid, Grid)
    points = dict(grid.items())
    for axis, ticks in enumerate(grid.ticks):
        for tick in ticks[1:-1]:
            rest = Grid(grid.axes, {at: value for at, value in points.items() if at[axis] != tick})
            for at, value in points.items():
                if at[axis] == tick:
                    yield rest.read(at, "linear", table.sidecar.operator).value, value


def calibration_toml(groups: Sequence[FittedGroup], provenance: Provenance) -> str:
    """The file that the option `calibration` of a roofline reads; groups at a limit are left out."""
    lines = ["schema = 1"]
    for group in groups:
        if not group.at_limit:
            share, (low, high) = f"{group.efficiency:.6g}", group.tokens
            lines.append(f"{group.name} = {{ efficiency = {share}, tokens = [{low}, {high}] }}")
    software = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in provenance.software.items())
    lines += ["", "[provenance]", f"software = {{ {software} }}"]
    for name in ("device", "measured_by", "soc", "date", "source", "method"):
        value = getattr(provenance, name)
        if value or name in {"device", "measured_by"}:
            lines.append(f"{name} = {_quoted(value)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
