"""Prices steps by a roofline of every operator."""

from __future__ import annotations

from collections.abc import Sequence

from serq.kernels.executor import BatchTotals, DecodeTotals, Evidence, OperatorPrice, Price
from serq.kernels.roofline.operators import Operator
from serq.kernels.roofline.work import Part, Work
from serq.kernels.step_batch import StepBatch


class RooflineExecutor:
    """A price for every form in which a step comes; all of them go through its :class:`Work`."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._operators = tuple(operators)

    def price(self, batch: StepBatch) -> Price:
        """The operators of a step with rows."""
        decodes = Part.of(row for row in batch.rows if row.decode)
        prefills = Part.of(row for row in batch.rows if not row.decode)
        return self._price(Work(batch.tokens, decodes, prefills))

    def price_decodes(self, totals: DecodeTotals) -> Price:
        """A step of decodes alone needs no rows."""
        return self._price(Work.of_decodes(totals, totals.decoders))

    def price_totals(self, totals: BatchTotals) -> Price:
        """A step of which only totals are known, unpadded."""
        return self._price(Work.of_totals(totals))

    def _price(self, work: Work) -> Price:
        priced = []
        for name, seconds_of in self._operators:
            seconds = seconds_of(work)
            if seconds > 0.0:
                priced.append(OperatorPrice(name, seconds, Evidence.ASSUMED))
        return Price.of(tuple(priced))
