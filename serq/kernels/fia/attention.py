"""Attention of a step priced from the points of Ascend 950 and the model fitted to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from serq.kernels.executor import BatchTotals, Evidence, OperatorPrice, OutsideRange
from serq.kernels.fia.model import FITTED
from serq.kernels.fia.points import DECODERS, KEYS, Heads, Point, measured, points
from serq.kernels.work import Work

HEAD_DIMS: Final = (128, 256)
"""Head dimensions that were measured; no formula relates them."""

SplitRule = Callable[[Work], bool] | None
"""Whether a step with decodes and prefills makes two calls; None: whichever is the cheaper."""


def split_rule(choice: str | Callable[[BatchTotals], float]) -> SplitRule:
    """The rule behind `never`, `always`, `auto` (or `mixed`, `split`), or an expression that is not 0."""
    if callable(choice):
        return lambda work: bool(choice(work.totals()))
    if choice == "auto":
        return None
    return lambda work: choice in ("always", "split")


@dataclass(frozen=True, slots=True)
class MeasuredAttention:
    """Prices the attention of ``layers`` layers with ``heads`` on a rank."""

    heads: Heads
    layers: int
    tensor_parallel_size: int
    split: SplitRule

    def price(self, work: Work) -> OperatorPrice:
        """The attention calls of a step over all layers."""
        if not work.mixed:
            return self.in_form(work, split=True)
        if self.split is not None:
            return self.in_form(work, self.split(work))
        one, two = (self.in_form(work, split) for split in (False, True))
        return two if two.seconds < one.seconds else one

    def in_form(self, work: Work, split: bool) -> OperatorPrice:
        """The price of one call, or of two: exact at a measured point, else of the model."""
        point = self._point(work)
        if point is not None:
            seconds = self.layers * (point.split if split else point.mixed)
            return OperatorPrice("attention", seconds, Evidence.MEASURED)
        seconds = self.layers * FITTED.seconds(work, self.heads, split)
        outside = self._outside(work)
        evidence = Evidence.EXTRAPOLATED if outside else Evidence.FITTED
        return OperatorPrice("attention", seconds, evidence, outside)

    def _point(self, work: Work) -> Point | None:
        decodes, prefills = work.decodes, work.prefills
        if (decodes.rows, decodes.keys) != (DECODERS, DECODERS * KEYS) or not decodes.uniform:
            return None
        if (prefills.rows, prefills.keys) != (1, KEYS) or decodes.tokens != DECODERS:
            return None
        return measured(int(prefills.tokens), self.heads, self.tensor_parallel_size)

    def _outside(self, work: Work) -> tuple[OutsideRange, ...]:
        """The dimensions on which a step lies beyond the measured ones."""
        decodes, prefills, dim = work.decodes, work.prefills, self.heads.head_dim
        known = [point for point in points() if point.heads.head_dim == dim]
        spans = [point.prefill_tokens for point in known]
        heads = [point.heads.num_heads for point in known]
        asked = [
            ("query_heads", self.heads.num_heads, min(heads), max(heads)),
            ("decoders", decodes.rows, DECODERS, DECODERS),
            ("prefill_tokens", prefills.tokens, min(spans), max(spans)),
        ]
        if decodes.rows:
            asked.append(("decode_keys", decodes.keys / decodes.rows, KEYS, KEYS))
        if prefills.rows:
            asked.append(("prefill_keys", prefills.keys / prefills.rows, KEYS, KEYS))
        return tuple(OutsideRange(*given) for given in asked if not given[2] <= given[1] <= given[3])
