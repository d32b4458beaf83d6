"""Quantities of a step that tables are measured over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from serq.kernels.executor import DecodeTotals
from serq.kernels.step_batch import BatchRow, StepBatch


@dataclass(frozen=True, slots=True)
class StepSums:
    """What tables read of a step; sums of whole numbers, so that rows and totals give the same."""

    tokens: int
    scheduled: int
    decoders: int
    prefilled: int
    context_decode: int
    context_prefill: int
    largest_decode: int
    attention: float
    rows: tuple[BatchRow, ...] = ()
    """The rows themselves, for tables of whole steps."""

    @classmethod
    def of(cls, batch: StepBatch) -> StepSums:
        """Of a step with rows."""
        return cls(
            tokens=batch.tokens,
            scheduled=len(batch.rows),
            decoders=batch.decoders,
            prefilled=batch.prefilled,
            context_decode=batch.context_decode,
            context_prefill=batch.context_prefill,
            largest_decode=max((row.computed for row in batch.rows if row.decode), default=0),
            attention=batch.attention,
            rows=batch.rows,
        )

    @classmethod
    def of_decodes(cls, totals: DecodeTotals) -> StepSums:
        """Of a step of decodes alone."""
        count = totals.decoders
        return cls(count, count, count, 0, totals.context, 0, totals.largest, 0.0)


QUANTITIES: Final[Mapping[str, Callable[[StepSums], float]]] = MappingProxyType({
    "tokens": lambda sums: sums.tokens,
    "scheduled": lambda sums: sums.scheduled,
    "decoders": lambda sums: sums.decoders,
    "prefills": lambda sums: sums.scheduled - sums.decoders,
    "prefilled": lambda sums: sums.prefilled,
    "context_decode": lambda sums: sums.context_decode,
    "context_prefill": lambda sums: sums.context_prefill,
    "mean_context_decode": lambda sums: sums.context_decode / sums.decoders if sums.decoders else 0.0,
    "largest_context_decode": lambda sums: sums.largest_decode,
    "attention": lambda sums: sums.attention,
    "decodes_alone": lambda sums: sums.decoders == sums.scheduled,
    "prefills_alone": lambda sums: not sums.decoders,
    "mixed": lambda sums: 0 < sums.decoders < sums.scheduled,
})  # fmt: skip
"""Name -> its value. Counts are requests, contexts tokens computed before; `attention` as in R-B-034.

`decodes_alone`, `prefills_alone` and `mixed` are 1 or 0: what the step is made of, for `when`.
"""
