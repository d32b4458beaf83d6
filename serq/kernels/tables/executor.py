"""Prices steps from tables of measured latencies."""

from __future__ import annotations

from collections.abc import Sequence

from serq.kernels.executor import DecodeTotals, OperatorPrice, Price
from serq.kernels.step_batch import StepBatch
from serq.kernels.tables.grid import Extrapolation
from serq.kernels.tables.operator_table import OperatorTable
from serq.kernels.tables.quantities import StepSums


class TableExecutor:
    """One operator a table; what no table covers costs nothing."""

    def __init__(self, tables: Sequence[OperatorTable], policy: Extrapolation) -> None:
        self._tables = tuple(tables)
        self._policy: Extrapolation = policy

    def price(self, batch: StepBatch) -> Price:
        """A step with rows. Raises RunError beyond the measured range under the policy `error`."""
        return self._price(StepSums.of(batch))

    def price_decodes(self, totals: DecodeTotals) -> Price:
        """A step of decodes alone needs no rows."""
        return self._price(StepSums.of_decodes(totals))

    def _price(self, sums: StepSums) -> Price:
        found: list[OperatorPrice] = []
        for table in self._tables:
            price = table.price(sums, self._policy)
            if price is not None:
                found.append(price)
        return Price.of(tuple(found))
