"""The state of an engine of an open run, and who gives way where blocks lack (S-026 to S-043)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from serq.runtime.clock import Clock
from serq.runtime.open_run.cached_blocks import CachedBlocks
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.notes import Notes, Step
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.open_run.waiting import OrderedWaiting
from serq.runtime.pricing import MeteredExecutor
from serq.runtime.serving.engine import VllmEngine
from serq.runtime.serving.step_totals import StepTotals
from serq.runtime.vllm.request_queue import RequestQueue

_MOST_PREEMPTIONS: Final = 99
"""A request that gives way more often may do so for ever; engines on the clock can tell."""

class StepPrice(NamedTuple):
    """What a step costs: an expression over its totals, or what the ``executor`` charges.

    ``changes``: whether steps of equally many decodes may cost different amounts. ``by_share``: whether it
    reads more of shares than how many tokens they have.
    """

    cost: Callable[[StepTotals], float] | None
    changes: bool
    by_share: bool
    reads_clock: bool
    executor: MeteredExecutor | None = None


class OpenParts(NamedTuple):
    """What an engine of an open run is made of.

    ``number`` is its place among the engines of the run, ``order`` that in which requests wait, where it is
    not that of arrival.
    """

    stage: VllmEngine
    number: int
    clock: Clock
    price: StepPrice
    cached: CachedBlocks | None
    order: RequestQueue | None


class GivingWay(Notes):
    """What an engine holds, and preemption."""

    def __init__(self, parts: OpenParts) -> None:
        stage, self.number, self.clock, self.price, self.cached, order = parts
        config = stage.resolved.config
        super().__init__(stage)
        self.max_model_len = config.max_model_len
        self.budget = config.token_budget
        self.max_num_seqs = config.max_num_seqs
        self.threshold = config.long_prefill_token_threshold or config.max_model_len
        self.chunks = config.enable_chunked_prefill
        self.whole_must_fit = config.scheduler_reserve_full_isl
        self.watermark = config.watermark_blocks
        self.depth = config.max_concurrent_batches
        self.until = 0.0
        """Up to here it may run: nobody comes from outside before."""
        self.go_on: Callable[[GivingWay, float], None] | None = None
        """Called when a step has ended with which requests did, where others take their place."""
        self.has_reached = False
        """Whether it has come to an instant, and not answered yet what happens there."""
        self.coming: deque[OpenRequest] = deque()
        """Sent, in the order of time: the engine has not come up to their arrival."""
        self.inbox: list[OpenRequest] = []
        """Arrived, and not taken in."""
        self.ordered = order is not None
        """Whether those who wait have another order than that of arrival; it may look at the clock."""
        self.waiting: deque[OpenRequest] | OrderedWaiting = deque()
        if order is not None:
            self.waiting = OrderedWaiting(order)
        self.running: dict[OpenRequest, None] = {}
        """In the order of admission."""
        self.partial: list[OpenRequest] = []
        """Those of them whose prompts are not complete, in order."""
        self.flight: deque[Step] = deque()
        self.stale: list[OpenRequest] = []
        """Who gave way with a share in flight."""
        self.is_steady = False
        """Whether the next step is like the latest, if nobody comes or ends."""
        self.device_free_at = 0.0
        self._admissions = self._last_joined = 0

    # --- blocks that lack -------------------------------------------------------------------------------

    def take_one_by_one(self, now: float, number: int) -> tuple[int, bool]:
        """Blocks lack for step ``number``: the last to come give way, one after another (S-026, S-040).

        How many did; and False if one gave way itself, so that nobody is left to look at (S-027).
        """
        if self.partial and self.partial[0].admission < self._last_joined:
            raise LeaveOpenRun(ClockReason.ORDER)
        victims = 0
        for request in [request for request in self.running if self._needs_block(request, number)]:
            while request in self.running and not self.free:
                self.preempt(next(reversed(self.running)), request, now, number)
                victims += 1
            if request not in self.running:
                return victims, False
            self.free -= 1
            self.held += 1
            if self.cached is not None:
                self.cached.take(1)
        return victims, True

    def _needs_block(self, request: OpenRequest, number: int) -> bool:
        """Whether ``request`` decodes in step ``number`` with the first token of a block."""
        decodes = request.joined >= 0 and request.leaves >= number
        return decodes and not (request.offset + number) % self.size

    def preempt(self, victim: OpenRequest, needed_by: OpenRequest, now: float, number: int) -> None:
        """``victim`` loses everything before it gets a share of step ``number``, and waits (S-043).

        What it computes in a step that is in flight still brings its token (S-104).
        """
        if victim.num_preemptions >= _MOST_PREEMPTIONS:
            raise LeaveOpenRun(ClockReason.AGAIN)
        del self.running[victim]
        if victim.joined >= 0:
            if self.partial:
                raise LeaveOpenRun(ClockReason.ORDER)
            lost = self._preempt_decode(victim, number)
        else:
            self.partial.remove(victim)
            lost = victim.computed
            self.release(victim, lost, lost)
        victim.computed = victim.held = 0
        self.queue.note_preemption(victim.row, lost, needed_by.row, now, number)
        victim.num_preemptions += 1
        victim.waits_since = now
        self.waiting.appendleft(victim)

    def _preempt_decode(self, victim: OpenRequest, number: int) -> int:
        """Take out one of those that are counted, and write down what has come; the tokens it loses."""
        ended = self.processed - 1
        lost = self.withdraw(victim, number)
        in_flight = number - self.processed
        outputs = victim.before + max(0, ended - victim.joined + 1)
        self.release(victim, lost, lost - in_flight)
        if outputs > victim.before:
            victim.last_time, victim.last_step = self.last_end, ended
        victim.num_output_tokens = outputs
        victim.num_tokens = victim.num_prompt_tokens + outputs
        victim.joined = -1
        if in_flight:
            self.stale.append(victim)
        return lost

    def release(self, request: OpenRequest, computed: int, known: int) -> None:
        """Free the blocks of ``request``, with ``computed`` tokens, and of these ``known``."""
        held = -(-computed // self.size)
        cached = self.cached
        if cached is None:
            self.free += held
            return
        cached.release(request, held, known)
        self.free = cached.pool.num_free_blocks
