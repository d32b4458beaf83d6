"""Prices steps from tables of measured latencies."""

from __future__ import annotations

from collections.abc import Sequence

from serq.kernels.executor import DecodeTotals, OperatorPrice, Price
from serq.kernels.fia.attention import MeasuredAttention
from serq.kernels.roofline.laying import PlainLaying
from serq.kernels.step_batch import StepBatch
from serq.kernels.tables.grid import Extrapolation
from serq.kernels.tables.operator_table import OperatorTable
from serq.kernels.tables.quantities import StepSums
from serq.kernels.work import Work

PLAIN = PlainLaying()


class TableExecutor:
    """One operator a table, and attention from measured points; what neither covers costs nothing."""

    def __init__(
        self,
        tables: Sequence[OperatorTable],
        policy: Extrapolation,
        attention: MeasuredAttention | None = None,
    ) -> None:
        self._tables = tuple(tables)
        self._attention = attention
        self._policy: Extrapolation = policy
        self._needs_rows = any(table.needs_rows for table in self._tables)

    def price(self, batch: StepBatch) -> Price:
        """A step with rows. Raises RunError beyond the measured range under the policy `error`."""
        return self._price(StepSums.of(batch), PLAIN.work(batch))

    def price_decodes(self, totals: DecodeTotals) -> Price | None:
        """A step of decodes alone needs no rows, unless a table is of whole steps."""
        if self._needs_rows:
            return None
        return self._price(StepSums.of_decodes(totals), PLAIN.of_decodes(totals))

    def _price(self, sums: StepSums, work: Work) -> Price:
        found: list[OperatorPrice] = []
        if self._attention is not None:
            found.append(self._attention.price(work))
        for table in self._tables:
            price = table.price(sums, self._policy)
            if price is not None:
                found.append(price)
        return Price.of(tuple(found))
