"""The scheduler that can tell which steps will follow each other alike, and do them at once."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.vllm.fast.counting import CountingScheduler
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.fast.steady_run import SteadyRun
from serq.runtime.vllm.request import Request, Time
from serq.runtime.vllm.scheduler_base import PauseState
from serq.runtime.vllm.scheduler_output import SchedulerOutput


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
            number=decodes.scheduled + 1,
            extremes=decodes.extremes,
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
        decodes, pool, in_bulk = self.decodes, self.kv_cache_manager.block_pool, self.in_bulk
        if count > keep:
            pool.take(decodes.advance(count - keep))
        formed, rows = [], self.decoding_requests
        for _ in range(keep):
            step = SchedulerOutput.of_decodes(decodes.coming(rows), pool.num_free_blocks, set())
            pool.take(decodes.advance(1))
            formed.append(step)
            in_bulk.popleft()
            in_bulk.append(step)
        self.freer.scheduled += count
        self.freer.processed += count
        self.finished_req_ids = set()
        return formed

    @staticmethod
    def is_stale(step: SchedulerOutput) -> bool:
        """Whether somebody gave way since ``step`` was formed, and what it brings is not taken as it is."""
        return any(share.request.num_stale_output_tokens for share in step.scheduled.values())

    def deliver_first_tokens(self, step: SchedulerOutput) -> list[Request]:
        """Land the written shares of the oldest step in a steady run; who got a token, the prompt computed.

        None of them :meth:`is_stale`, and none of the tokens ends a request.
        """
        told = []
        for share in step.scheduled.values():
            request = share.request
            request.num_in_flight_tokens -= share.num_tokens
            if share.samples and not request.is_finished:
                request.append_output_token()
                if self.config.async_scheduling:
                    self._settle_placeholders(request, 1, is_stale=False, was_running=True)
                told.append(request)
        return told
