"""The scheduler with its decodes in bulk: the same decisions as the walk, in everything but block ids.

A step is formed in three parts. Requests of the decode set get their shares all at once; other running
requests (those whose prompt is computed) and waiting ones go through the walk's own code. What does not fit
this shape is walked: then everybody leaves the set, and joins again afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.extents.manager import ExtentKVCacheManager
from serq.runtime.vllm.fast.decode_set import DecodeSet, Decoding
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.fast.written_shares import sort_shares, write_share
from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.request import Request, RequestStatus, Time
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import FormingStep, PauseState
from serq.runtime.vllm.scheduler_output import DecodesInBulk, ModelOutput, RequestOutput, SchedulerOutput
from serq.runtime.vllm.tokens import Source
from serq.runtime.vllm.waiting_loop import Start


class CountingScheduler(VllmScheduler):
    """Forms steps in bulk. ``told`` hears of every request whose tokens were counted and now are written."""

    kv_cache_manager: ExtentKVCacheManager

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.decodes = DecodeSet(self.kv_cache_manager, async_scheduling=config.async_scheduling)
        self.told: Callable[[Request], None] = lambda request: None
        self.individuals: list[Request] = []
        """Running requests that are not in the decode set, in order."""
        self.in_bulk: deque[SchedulerOutput] = deque()
        """Steps formed in bulk and not yet processed."""
        self.walked_for: WalkReason | None = None
        """Why the latest step was not formed in bulk."""
        self.blocked_head: Request | None = None
        """The waiting request for which the latest step lacked blocks."""
        self._admissions = 0
        self._last_joined = 0
        self._scattered = False
        self._speakers: dict[Source, Request] = {}
        self.quoted: dict[Request, None] = {}
        """Requests whose words others' prompts quote while they say them: what they publish is looked up."""

    def add_request(self, request: Request) -> None:
        """Take in a new request; see whom its prompt quotes."""
        super().add_request(request)
        if self.config.enable_prefix_caching:
            speakers = self._speakers
            for source, _, _ in request.tokens.runs:
                if source in speakers:
                    self.quoted[speakers[source]] = None
            speakers[request.output.source] = request

    def release(self, request: Request) -> None:
        """Free the blocks of a finished request and forget it."""
        super().release(request)
        self._speakers.pop(request.output.source, None)
        self.quoted.pop(request, None)

    @staticmethod
    def create_kv_cache_manager(config: EngineConfig) -> KVCacheManager:
        """Extents stand for the blocks."""
        return ExtentKVCacheManager(config)

    @property
    def num_waiting(self) -> int:
        """Requests that wait: all that do not run, since none of them is on its way anywhere else."""
        return len(self.requests) - len(self.running)

    # ---- a step -------------------------------------------------------------------

    def schedule(self, now: Time, *, throttle_prefills: bool = False) -> SchedulerOutput:
        """Form the next step, in bulk if it has that shape."""
        self.blocked_head = None
        if self._scattered:
            self._gather()
        self.walked_for = self._obstacle()
        if self.walked_for is not None:
            self.scatter()
            return super().schedule(now, throttle_prefills=throttle_prefills)
        return self._schedule_decodes(now) if self._decodes_alone() else self._schedule_in_bulk(now)

    def _decodes_alone(self) -> bool:
        """Whether nobody but decodes can have a share of the next step, and there are blocks for all."""
        if self.individuals or self.quoted or not self.decodes.count:
            return False
        if self.num_waiting and self.has_slot():
            return False
        return self.decodes.blocks_needed <= self.kv_cache_manager.block_pool.num_free_blocks

    def _schedule_decodes(self, now: Time) -> SchedulerOutput:
        """Form a step of decodes alone."""
        self.now = now
        decodes, pool = self.decodes, self.kv_cache_manager.block_pool
        finished, self.finished_req_ids = self.finished_req_ids, set()
        counted = decodes.coming(self.decoding_requests)
        step = SchedulerOutput.of_decodes(counted, pool.num_free_blocks, finished)
        pool.take(decodes.blocks_needed)
        decodes.count_scheduled()
        self.freer.scheduled += 1
        self.in_bulk.append(step)
        return step

    def _obstacle(self) -> WalkReason | None:
        """Why the next step has not the shape of one in bulk."""
        if self.pause_state is PauseState.PAUSED_ALL:
            return WalkReason.PAUSED
        if self._scattered:
            return WalkReason.STOP_RULE
        decodes = self.decodes
        left = self._token_budget - decodes.count
        if left < 0:
            return WalkReason.BUDGET
        if not self.individuals and decodes.blocks_needed <= self.kv_cache_manager.block_pool.num_free_blocks:
            return None
        return self._obstacle_beside(left)

    def _obstacle_beside(self, left: int) -> WalkReason | None:
        """The same, where prompts are computed or blocks lack: order may matter then."""
        fcfs = self.config.policy == "fcfs"
        individuals = self.individuals
        behind = not individuals or individuals[0].admission > self._last_joined
        if fcfs and behind:
            return None
        wanted = [self._most_wanted(request) for request in individuals]
        size = self.kv_cache_manager.block_size
        most = self.decodes.blocks_needed + sum(share // size + 1 for share in wanted)
        if most > self.kv_cache_manager.block_pool.num_free_blocks:
            return WalkReason.BLOCKS if fcfs else WalkReason.PRIORITY
        in_order = behind or (sum(wanted) <= left and not self.quoted)
        return None if in_order else WalkReason.BUDGET

    def _most_wanted(self, request: Request) -> int:
        known = request.num_tokens + request.num_output_placeholders
        threshold = self.config.long_prefill_token_threshold
        wanted = known - request.num_computed_tokens
        return min(wanted, threshold) if threshold > 0 else wanted

    def _schedule_in_bulk(self, now: Time) -> SchedulerOutput:
        step = self._begin(now, throttle_prefills=False)
        decodes, pool = self.decodes, self.kv_cache_manager.block_pool
        goes_on = True
        if decodes.blocks_needed <= step.num_free_blocks:
            pool.take(decodes.blocks_needed)
        else:
            goes_on = self._take_one_by_one(step)
        counted = decodes.coming(self.decoding_requests)
        decodes.count_scheduled()
        for speaker in self.quoted:
            self.tell(speaker)
        step.token_budget -= counted.count
        if goes_on:
            self._schedule_individuals(step)
        if self.admission_open(step):
            self.schedule_waiting(step)
        return self._close_in_bulk(step, counted)

    def _take_one_by_one(self, step: FormingStep) -> bool:
        """Blocks lack: the last to come give way, one after another (S-026, S-040).

        False: a request gave way itself, and nobody is left to look at (S-027).
        """
        pool = self.kv_cache_manager.block_pool
        for member in self.decodes.needing_blocks():
            while not member.gone and not pool.num_free_blocks:
                self.on_shortage(step, member.request)
            if member.gone:
                return False
            pool.take(1)
        return True

    def _schedule_individuals(self, step: FormingStep) -> None:
        """The running loop for those who are not counted."""
        for request in tuple(self.individuals):
            if step.token_budget <= 0:
                return
            if request.status is not RequestStatus.RUNNING:
                continue
            num_tokens = 0 if self._passes_over(step, request) else self._running_share(step, request)
            if num_tokens > 0:
                if not self._make_room(step, request, num_tokens):
                    return
                step.prefill_scheduled |= request.is_prefill_chunk
                self.take_share(step, request, num_tokens, "running", 0)

    def _close_in_bulk(self, step: FormingStep, counted: DecodesInBulk) -> SchedulerOutput:
        finished, self.finished_req_ids = self.finished_req_ids, set()
        total = counted.count
        for share in step.scheduled.values():
            total += share.num_tokens
        output = SchedulerOutput(
            scheduled=step.scheduled,
            total_num_scheduled_tokens=total,
            preempted_req_ids=[request.request_id for request in step.preempted],
            finished_req_ids=finished,
            hits=step.hits,
            num_common_prefix_blocks=[],
            block_copies=[],
            new_block_ids_to_zero=[],
            num_spec_tokens=0,
            num_free_blocks_before=step.num_free_blocks,
            decodes=counted,
        )
        self._advance(output)
        self.in_bulk.append(output)
        for share in step.scheduled.values():
            if share.samples:
                self._join(share.request, int(not self.config.async_scheduling))
        return output

    def decoding_requests(self) -> list[Request]:
        """The requests with a share in the latest step that is not written down, told all, in order."""
        latest = self.decodes.scheduled
        joined = (m for m in self.decodes.members.values() if m.joined < latest)
        members = [m for m in joined if not (m.foreseen and m.last < latest)]
        members.sort(key=lambda member: member.request.admission)
        for member in members:
            self._tell(member)
        return [member.request for member in members]

    # ---- in and out of the set ------------------------------------------------------

    def _join(self, request: Request, awaited: int) -> bool:
        """Let a running request decode in bulk; ``awaited`` outputs are in flight and no placeholders."""
        end = request.foreseen_end(self.config.max_model_len)
        if end is None:
            self._scattered = True
            return False
        last, foreseen = end
        left = last - request.num_output_tokens - request.num_output_placeholders - awaited
        if left < 1 and (foreseen or not self.config.async_scheduling):
            return False
        self.decodes.join(request, left, foreseen=foreseen)
        self.individuals.remove(request)
        self._last_joined = max(self._last_joined, request.admission)
        return True

    def _tell(self, member: Decoding) -> None:
        if self.decodes.tell(member):
            self.told(member.request)

    def tell(self, request: Request) -> None:
        """Write into ``request`` what was counted for it so far, if it is in the set."""
        member = self.decodes.members.get(request)
        if member is not None:
            self._tell(member)

    def tell_all(self) -> None:
        """Write into every request what was counted for it so far."""
        for member in self.decodes.members.values():
            self._tell(member)

    def _leave(self, request: Request) -> Decoding:
        member = self.decodes.members[request]
        tokens = member.processed
        self.decodes.leave(request)
        if member.processed > tokens:
            self.told(request)
        return member

    def _leave_with_shares(self, request: Request) -> None:
        """Take ``request`` out of the set, and write down its shares in flight."""
        member = self._leave(request)
        first = self.decodes.scheduled - len(self.in_bulk) + 1
        steps = range(first, self.decodes.scheduled + 1)
        for number, computed in self.decodes.shares_in_flight(member, steps):
            step = self.in_bulk[number - first]
            write_share(step, request, computed)
            sort_shares(step)

    def scatter(self) -> None:
        """Let everybody leave the set: the walk sees single requests."""
        self._scattered = True
        for request in self.running:
            if request in self.decodes.members:
                self._leave_with_shares(request)
        self.individuals = list(self.running)

    def _gather(self) -> None:
        """Let all join the set who decode."""
        self._scattered = False
        self.individuals = [request for request in self.running if request not in self.decodes.members]
        for request in tuple(self.individuals):
            known = request.num_tokens + request.num_output_placeholders
            if not request.is_prefill_chunk and known - request.num_computed_tokens == 1:
                self._join(request, 0)
        if self._scattered:
            self.scatter()

    def _admit(self, step: FormingStep, request: Request, start: Start, share: int, num_pads: int) -> None:
        self._admissions += 1
        request.admission = self._admissions
        self.individuals.append(request)
        super()._admit(step, request, start, share, num_pads)

    def _allocate(self, request: Request, start: Start, num_tokens: int) -> bool:
        allocated = super()._allocate(request, start, num_tokens)
        self.blocked_head = None if allocated else request
        return allocated

    def preempt_request(
        self,
        request: Request,
        *,
        drop_stale_output: bool,
        needed_by: Request | None = None,
        is_offloaded: bool = False,
    ) -> None:
        """Take everything from a request no longer in ``running`` and let it wait (S-043, S-104)."""
        if request in self.decodes.members:
            self._leave_with_shares(request)
        elif request in self.individuals:
            self.individuals.remove(request)
        super().preempt_request(
            request, drop_stale_output=drop_stale_output, needed_by=needed_by, is_offloaded=is_offloaded
        )

    def finish_requests(self, request_ids: Iterable[str], status: RequestStatus) -> list[Request]:
        """End requests from outside, wherever they are (S-140)."""
        ids = list(request_ids)
        for request_id in ids:
            request = self.requests.get(request_id)
            if request is not None and request in self.decodes.members:
                self._leave(request)
        return super().finish_requests(ids, status)

    def leave_running(self, requests: list[Request]) -> None:
        """Take ``requests`` out of ``running``."""
        super().leave_running(requests)
        for request in requests:
            if request in self.individuals:
                self.individuals.remove(request)

    # ---- results ----------------------------------------------------------------------

    def process_output(self, step: SchedulerOutput, output: ModelOutput) -> list[RequestOutput]:
        """Apply what came of ``step``; of those counted only who ends is looked at."""
        if not self.in_bulk or step is not self.in_bulk[0]:
            self._let_go_of_ending(step)
            self.decodes.just_scheduled = False
            return super().process_output(step, output)
        decodes = self.decodes
        ending = decodes.pop_ending(decodes.processed + 1)
        if not step.scheduled:
            self.in_bulk.popleft()
            self.freer.processed += step.total_num_scheduled_tokens > 0
            outputs = self._end(ending) if ending else []
            decodes.processed += 1
            decodes.just_scheduled = False
            return outputs
        if ending:
            for member in ending:
                self._leave(member.request)
                computed = member.request.num_computed_tokens - member.request.num_in_flight_tokens
                write_share(step, member.request, computed)
            sort_shares(step)
            sampled = {name: int(share.samples) for name, share in step.scheduled.items()}
            output = ModelOutput(sampled)
        self.in_bulk.popleft()
        outputs = super().process_output(step, output)
        decodes.processed += 1
        decodes.just_scheduled = False
        return outputs

    def _end(self, ending: list[Decoding]) -> list[RequestOutput]:
        """Requests end with the oldest step, which nobody has a written share of, in order of admission."""
        if len(ending) > 1:
            ending.sort(key=lambda member: member.request.admission)
        outputs = []
        for member in ending:
            request = member.request
            self._leave(request)
            request.num_in_flight_tokens -= 1
            self._append(request, 1)
            if self.config.async_scheduling:
                self._settle_placeholders(request, 1, is_stale=False, was_running=True)
            self.free_request(request)
            outputs.append(RequestOutput(request, 1, request.status))
        self.leave_running([member.request for member in ending])
        return outputs

    def _let_go_of_ending(self, step: SchedulerOutput) -> None:
        """Take those out of the set who end with a share that was written down (S-103b)."""
        members = self.decodes.members
        for share in step.scheduled.values():
            member = members.get(share.request)
            if member is not None and share.samples and member.last == member.joined:
                self._leave(share.request)
