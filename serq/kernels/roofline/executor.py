"""Prices steps by a roofline of every operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from serq.kernels.executor import BatchTotals, DecodeTotals, Evidence, OperatorPrice, OutsideRange, Price
from serq.kernels.roofline.calibration import GroupFit
from serq.kernels.roofline.laying import Laying
from serq.kernels.roofline.operators import Operator
from serq.kernels.step_batch import StepBatch
from serq.kernels.work import Work

Priced = Callable[[Work], OperatorPrice]
"""An operator with its evidence; 0 seconds where the step has none of it."""


class RooflineExecutor:
    """A price for every form in which a step comes; all of them go through its :class:`Work`."""

    def __init__(self, operators: Sequence[Priced], laying: Laying) -> None:
        self._operators = tuple(operators)
        self._laying = laying

    def price(self, batch: StepBatch) -> Price:
        """The operators of a step with rows."""
        return self._price(self._laying.work(batch))

    def price_decodes(self, totals: DecodeTotals) -> Price:
        """A step of decodes alone needs no rows."""
        return self._price(self._laying.of_decodes(totals))

    def price_totals(self, totals: BatchTotals) -> Price:
        """A step of which only totals are known, unpadded."""
        return self._price(Work.of_totals(totals))

    def _price(self, work: Work) -> Price:
        prices = (operator(work) for operator in self._operators)
        return Price.of(tuple(price for price in prices if price.seconds > 0.0))


def assumed(operator: Operator) -> Priced:
    """An operator at an efficiency that somebody assumes."""
    name, seconds = operator.name, operator.seconds
    return _kept(operator, lambda work: OperatorPrice(name, seconds(work), Evidence.ASSUMED))


def fitted(operator: Operator, fit: GroupFit) -> Priced:
    """An operator at an efficiency that was fitted over a range of tokens."""
    name, seconds = operator.name, operator.seconds
    low, high = fit.tokens

    def price(work: Work) -> OperatorPrice:
        if low <= work.tokens <= high:
            return OperatorPrice(name, seconds(work), Evidence.FITTED)
        outside = (OutsideRange("tokens", work.tokens, low, high),)
        return OperatorPrice(name, seconds(work), Evidence.EXTRAPOLATED, outside)

    return _kept(operator, price)


def _kept(operator: Operator, price: Priced) -> Priced:
    """The same prices; those of a dense operator are kept by its tokens, where these are counted."""
    if not operator.dense:
        return price
    known: dict[int, OperatorPrice] = {}

    def kept(work: Work) -> OperatorPrice:
        tokens = work.tokens
        if not isinstance(tokens, int):
            return price(work)
        found = known.get(tokens)
        if found is None:
            found = known[tokens] = price(work)
        return found

    return kept
