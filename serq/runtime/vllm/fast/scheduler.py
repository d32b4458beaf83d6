"""The scheduler that can tell which steps will follow each other alike, and do them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from serq.runtime.vllm.fast.counting import CountingScheduler
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.fast.steady_run import SteadyRun
from serq.runtime.vllm.request import Time
from serq.runtime.vllm.scheduler_base import PauseState
from serq.runtime.vllm.scheduler_output import DecodesInBulk, SchedulerOutput


class FastScheduler(CountingScheduler):
    """Knows how its next steps go, as long as no message comes."""

    def steady(self, in_flight: Sequence[SchedulerOutput]) -> SteadyRun | WalkReason:
        """The steps of decodes alone that follow if no message comes; all of ``in_flight`` are formed."""
        reason = self._unsteady(in_flight)
        if reason is not None:
            return reason
        decodes = self.decodes
        end = int(decodes.next_end())
        limit = end - decodes.processed - 1
        tail = None
        if decodes.scheduled < end < decodes.scheduled + limit:
            tail = decodes.after(end)
            if tail[0] == 0 or (tail[0] < decodes.count == self._token_budget and self.num_waiting):
                limit, tail = limit - 1, None
        if limit < 1:
            return WalkReason.FINISH
        return SteadyRun(
            limit=limit,
            count=decodes.count,
            context=decodes.context,
            held=decodes.held,
            free=self.kv_cache_manager.block_pool.num_free_blocks,
            needs=decodes.coming_needs(),
            tail=tail,
        )

    def _unsteady(self, in_flight: Sequence[SchedulerOutput]) -> WalkReason | None:
        """Why the next step is not one of decodes alone like those after it."""
        if self.walked_for is not None or self._scattered:
            return self.walked_for or WalkReason.STOP_RULE
        if self.individuals:
            prefills = any(request.is_prefill_chunk for request in self.individuals)
            return WalkReason.PREFILL if prefills else WalkReason.FINISH
        if len(self.in_bulk) != len(in_flight) or not self.decodes.count:
            return WalkReason.START
        if self.quoted:
            return WalkReason.QUOTED
        members = self.decodes.members
        for step in in_flight:
            if not step.total_num_scheduled_tokens:
                return WalkReason.START
            for share in step.scheduled.values():
                if share.request not in members and not share.request.is_finished:
                    return WalkReason.BLOCKS
        return None if self._admits_nobody() else WalkReason.WAITING

    def _admits_nobody(self) -> bool:
        """Whether the waiting loop ends at once, and changes nothing, in every step of decodes alone.

        A head that lacked blocks in the latest step lacks them as long as nobody gives any back: every block
        that is taken makes one less free, and at most one less of what the head has cached.
        """
        if not self.num_waiting or self.pause_state is not PauseState.UNPAUSED:
            return True
        if not self.has_slot() or self.decodes.count >= self._token_budget:
            return True
        return self.blocked_head is not None

    def advance(self, count: int, keep: int, now: Time) -> list[SchedulerOutput]:
        """Process ``count`` steps and form as many, the last at ``now``; the last ``keep`` of them."""
        self.now = now
        decodes = self.decodes
        formed = deque[SchedulerOutput](maxlen=keep)
        taken = decodes.advance(count - keep) if count > keep else 0
        for _ in range(keep):
            taken += decodes.blocks_needed
            slots = (decodes.held + decodes.blocks_needed) * self.kv_cache_manager.block_size
            counted = DecodesInBulk(decodes.count, decodes.context, slots, self.decoding_requests)
            decodes.advance(1)
            formed.append(_step_of(counted, self.kv_cache_manager.block_pool.num_free_blocks - taken))
        self.kv_cache_manager.block_pool.take(taken)
        self.freer.scheduled += count
        self.freer.processed += count
        self.finished_req_ids = set()
        for step in formed:
            self.in_bulk.popleft()
            self.in_bulk.append(step)
        return list(formed)


def _step_of(counted: DecodesInBulk, free_blocks: int) -> SchedulerOutput:
    """A step of decodes alone."""
    return SchedulerOutput(
        scheduled={},
        total_num_scheduled_tokens=counted.count,
        preempted_req_ids=[],
        finished_req_ids=set(),
        hits={},
        num_common_prefix_blocks=[],
        block_copies=[],
        new_block_ids_to_zero=[],
        num_spec_tokens=0,
        num_free_blocks_before=free_blocks,
        decodes=counted,
    )
