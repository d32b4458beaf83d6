"""Steps as they lie on the device: padded tokens, and which rows an attention call takes as decodes."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from serq.kernels.ascend.attention_state import AttentionState
from serq.kernels.ascend.layout import AscendLayoutEngine
from serq.kernels.executor import DecodeTotals
from serq.kernels.step_batch import StepBatch
from serq.kernels.work import NOTHING, Part, Work


class Laying(Protocol):
    """From a step to its work."""

    def work(self, batch: StepBatch) -> Work:
        """Of a step with rows."""

    def of_decodes(self, totals: DecodeTotals) -> Work:
        """Of a step of decodes of one token each: the same as of its rows."""


class PlainLaying:
    """Nothing is padded, and a row is a decode where the scheduler says so; SGLang lays steps out like this.

    SGLang's order, prefills first, changes no sum; it keeps no graphs of mixed batches, and those of decodes
    are not modelled.
    """

    def work(self, batch: StepBatch) -> Work:
        """Of a step with rows."""
        decodes = Part.of(row for row in batch.rows if row.decode)
        return Work(batch.tokens, decodes, Part.of(row for row in batch.rows if not row.decode))

    def of_decodes(self, totals: DecodeTotals) -> Work:
        """Of a step of decodes alone."""
        return Work.of_decodes(totals, totals.decoders)


class AscendLaying:
    """vllm-ascend: tokens are padded to the captured graph, rows are decodes by their length (V-068, V-071).

    Fresh prompts of one token are prefills like any others (V-067).
    """

    def __init__(self, engine: AscendLayoutEngine) -> None:
        self._engine = engine
        self._padded = cache(self._pad)

    def work(self, batch: StepBatch) -> Work:
        """Of a step with rows."""
        layout = self._engine.layout(batch)
        count = min(layout.metadata.num_decodes, len(layout.rows))
        if layout.state.attention is AttentionState.PREFILL_NO_CACHE:
            count = 0
        decodes, prefills = Part.of(layout.rows[:count]), Part.of(layout.rows[count:])
        return Work(layout.num_tokens, decodes, prefills if prefills.rows else NOTHING)

    def of_decodes(self, totals: DecodeTotals) -> Work:
        """Of a step of decodes alone: how far it is padded depends on their number."""
        return Work.of_decodes(totals, self._padded(totals.decoders))

    def _pad(self, decoders: int) -> int:
        ones = [1] * decoders
        return self._engine.planner.plan(ones, ones).descriptor.num_tokens
