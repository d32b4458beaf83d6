"""What the cost of a `vllm` stage reads about the step it prices (R-B-033, R-B-034)."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.scheduler_output import ScheduledRequest, SchedulerOutput
from serq.runtime.vllm.tokens import OutputScript

_OF_ROWS: Final = frozenset({"decoders", "context_decode", "context_prefill", "attention"})
_OF_BLOCKS: Final = frozenset({"kv_decode", "kv_prefill"})


class StepTotals:
    """The totals of one step, as the floats that a cost expression computes with.

    A row is a decode when exactly one known token was uncomputed and some were computed. ``residents`` run,
    ``scheduled`` of them have tokens in this step. ``kv_decode`` and ``kv_prefill`` are the blocks that
    scheduled requests hold, times the block size, summed over the groups that keep keys and values.
    """

    __slots__ = (
        "attention",
        "context_decode",
        "context_prefill",
        "decoders",
        "kv_decode",
        "kv_prefill",
        "prefilled",
        "residents",
        "scheduled",
        "tokens",
    )

    def __init__(self, residents: int, scheduled: int, tokens: int, prefilled: int = 0) -> None:
        self.residents = float(residents)
        self.scheduled = float(scheduled)
        self.tokens = float(tokens)
        self.prefilled = float(prefilled)
        self.decoders = self.context_decode = self.context_prefill = self.attention = 0.0
        self.kv_decode = self.kv_prefill = 0.0

    def add_decodes(self, count: int, context: int, slots: int) -> None:
        """Count decodes that have no rows of their own: their computed tokens, and the slots they hold."""
        self.decoders += count
        self.context_decode += context
        self.kv_decode += slots

    def add_rows(self, step: SchedulerOutput) -> None:
        """Count what every row computes on top of what."""
        for share in step.scheduled.values():
            computed = share.num_computed_tokens
            if share.is_decode:
                self.decoders += 1.0
                self.context_decode += computed
            else:
                self.context_prefill += computed
                self.attention += share.num_tokens * (computed + share.num_tokens / 2)

    def add_blocks(self, step: SchedulerOutput, manager: KVCacheManager) -> None:
        """Count the blocks that every scheduled request holds."""
        for request_id, share in step.scheduled.items():
            held = manager.held_tokens(request_id)
            if share.is_decode:
                self.kv_decode += held
            else:
                self.kv_prefill += held


def step_of_nobody(tokens: int, computed: int) -> SchedulerOutput:
    """A step of one row that belongs to no request: what a dummy batch or a profile computes."""
    request = Request("", (), StopRule(1), OutputScript(("nobody",)))
    request.num_prompt_tokens = request.num_tokens = tokens + computed
    share = ScheduledRequest(request, tokens, "running", computed, 0, is_decode=computed > 0)
    return SchedulerOutput({"": share}, tokens, [], set(), {}, [], [], [], 0, 0)


class TotalsReader:
    """Computes of a step what its engine's cost expression reads."""

    def __init__(self, reads: Set[str], manager: KVCacheManager) -> None:
        self._manager = manager
        self._reads_rows = bool(reads & _OF_ROWS)
        self._reads_blocks = bool(reads & _OF_BLOCKS)

    def read(self, step: SchedulerOutput, num_running: int, prefill_tokens: int) -> StepTotals:
        """The totals of ``step``; those that no cost reads need not be there."""
        totals = StepTotals(num_running, step.num_scheduled, step.total_num_scheduled_tokens, prefill_tokens)
        decodes = step.decodes
        if decodes is not None:
            totals.add_decodes(decodes.count, decodes.context, decodes.slots)
        if self._reads_rows:
            totals.add_rows(step)
        if self._reads_blocks:
            totals.add_blocks(step, self._manager)
        return totals
