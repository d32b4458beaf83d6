"""Prices steps by running their operators: every shape once, and from then on what was measured first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from serq.errors import RunError
from serq.kernels.executor import DecodeTotals, Evidence, OperatorPrice, Price
from serq.kernels.layout import LayoutEngine
from serq.kernels.measuring.bench import Bench, Timing
from serq.kernels.measuring.operators import MeasuredOperator, OperatorPlan
from serq.kernels.measuring.store import MeasuredTables, TableKind
from serq.kernels.operator_schema import OperatorCallError
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.kernels.step_shape import canonical_rows, shape_text

COLLECTIVES = "collectives"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What runs, on what, and where it is kept; ``collectives`` are seconds by tokens, None for one rank."""

    plan: OperatorPlan
    layout: LayoutEngine
    bench: Bench
    tables: MeasuredTables
    context_step: int
    collectives: Callable[[int], float] | None = None


class MeasuringExecutor:
    """The price of a step is that of its shape: contexts rounded up, rows in a canonical order.

    It depends on the step and on the tables alone, so a run from the same tables is the same run.
    """

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement
        self._prices: dict[tuple[BatchRow, ...], Price] = {}

    def price(self, batch: StepBatch) -> Price:
        """What was measured for the shape of the step, measured now if nothing was.

        Raises RunError where the device cannot run it.
        """
        rows = canonical_rows(batch.rows, self._measurement.context_step)
        price = self._prices.get(rows)
        if price is None:
            price = self._prices[rows] = self._measured(rows)
        return price

    def price_decodes(self, totals: DecodeTotals) -> None:
        """None: attention depends on the rows."""
        return None

    def _measured(self, rows: tuple[BatchRow, ...]) -> Price:
        measurement = self._measurement
        batch = StepBatch.of(rows)
        layout = measurement.layout.layout(batch)
        prices = [self._price(operator, batch) for operator in measurement.plan.operators(batch, layout)]
        if measurement.collectives is not None:
            prices.append(self._collectives(batch, layout.num_tokens, measurement.collectives))
        return Price.of(tuple(sorted(prices)))

    def _price(self, operator: MeasuredOperator, batch: StepBatch) -> OperatorPrice:
        kind = self.table_kind(operator)
        key = point_key(operator.axis, batch)
        seconds = self._measurement.tables.price(kind, (key,), lambda: self.time(operator, batch))
        return OperatorPrice(operator.name, seconds * operator.layers, Evidence.MEASURED)

    def table_kind(self, operator: MeasuredOperator) -> TableKind:
        """The table in which an operator is kept."""
        step = self._measurement.context_step if operator.axis == "shape" else 1
        return TableKind(operator.name, (operator.axis,), operator.layers, context_step=step)

    def time(self, operator: MeasuredOperator, batch: StepBatch) -> Timing:
        """Run and time an operator. Raises RunError with its name where that fails."""
        where = f"`{operator.name}` at a step `{shape_text(batch.rows)}`"
        try:
            return self._measurement.bench.time(operator.calls)
        except (OperatorCallError, RuntimeError, NotImplementedError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RunError(f"{where} cannot be measured: {first}", code="executor-options") from error

    def _collectives(self, batch: StepBatch, tokens: int, seconds: Callable[[int], float]) -> OperatorPrice:
        """Exchange between ranks: one device measures none of it, so it is computed and says so."""
        measurement = self._measurement
        axis = "shape" if measurement.plan.pads else "tokens"
        step = measurement.context_step if axis == "shape" else 1
        kind = TableKind(COLLECTIVES, (axis,), context_step=step, assumed=True)
        value = seconds(tokens)
        found = measurement.tables.price(kind, (point_key(axis, batch),), lambda: Timing(value, value, value))
        return OperatorPrice(COLLECTIVES, found, Evidence.ASSUMED)


def point_key(axis: str, batch: StepBatch) -> str:
    """Where on its axis a canonical step lies, as a table has it."""
    if axis == "shape":
        return shape_text(batch.rows)
    return str(batch.tokens if axis == "tokens" else len(batch.rows))
