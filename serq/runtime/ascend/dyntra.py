"""DyntraLB: decode ranks pause and admit requests so that their KV loads stay even (V-050 to V-057)."""

from __future__ import annotations

from collections.abc import Iterator

from serq.runtime.ascend.balance_plan import BalanceStep, RankLoad
from serq.runtime.ascend.recompute import RecomputeScheduler
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.kv_cache_spec import ceil_div
from serq.runtime.vllm.request import Request, RequestStatus, Time
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import FormingStep
from serq.runtime.vllm.scheduler_output import SchedulerOutput
from serq.runtime.vllm.waiting_loop import Verdict


class DyntraLBPolicy(VllmScheduler):
    """What DyntraLB adds to a scheduler.

    Before a step :meth:`prepare` names the candidates and their loads; a plan made of all ranks' loads
    (:func:`serq.runtime.ascend.balance_plan.balance_plan`) is set as ``plan`` for the next step only.
    """

    def __init__(self, config: EngineConfig, connector: KVConnector | None = None) -> None:
        super().__init__(config, connector)
        self.plan: BalanceStep | None = None
        self.prefetches = False
        self._candidates: list[Request] = []
        self._admitted: set[str] | None = None

    def schedule(self, now: Time, *, throttle_prefills: bool = False) -> SchedulerOutput:
        """Form the next step, with the plan applied first."""
        self._admitted = None if self.plan is None else self._apply(self.plan)
        self.plan = None
        return super().schedule(now, throttle_prefills=throttle_prefills)

    def may_admit(self, request: Request) -> bool:
        """Only those that the plan admits; the others are set aside (V-054)."""
        if self._admitted is not None and request.request_id not in self._admitted:
            return False
        return super().may_admit(request)

    def prepare(self) -> RankLoad:
        """Promote finished loads, begin new ones, choose the candidates; this rank's load (V-052)."""
        for request in list(self.skipped_waiting):
            if request.status is RequestStatus.WAITING_FOR_REMOTE_KVS:
                self.promote(request)
        unready = self._prefetch() if self.prefetches and self.connector is not None else set()
        startable = (RequestStatus.WAITING, RequestStatus.PREEMPTED)
        self._candidates = [
            request
            for request in self._in_schedule_order()
            if request.status in startable and request.request_id not in unready
        ]
        return RankLoad([self.load(r) for r in self.running], [self.load(r) for r in self._candidates])

    def load(self, request: Request) -> int:
        """A request's load: the blocks of all its tokens (V-051)."""
        return ceil_div(request.num_tokens, self.config.cache_block_size)

    def _in_schedule_order(self) -> Iterator[Request]:
        yield from self.skipped_waiting
        yield from self.waiting

    def _prefetch(self) -> set[str]:
        """Begin the loads of up to one further batch; ids whose KV is not ready (V-053)."""
        places = 2 * self.config.max_num_seqs - len(self.running)
        unready: set[str] = set()
        for request in list(self.waiting):
            if request.num_computed_tokens:
                continue
            if places <= 0 or not self._ready_or_loading(request):
                unready.add(request.request_id)
            places -= 1
        return unready

    def _ready_or_loading(self, request: Request) -> bool:
        """Whether the KV of ``request`` is here; if it is elsewhere its load begins, where blocks suffice."""
        start = self._find_start(request)
        if start is None:
            return False
        if not start.load_async:
            return True
        if self._begin_load(FormingStep(0, 0), request, start) is Verdict.SET_ASIDE:
            self.waiting.remove_requests((request,))
            self.skipped_waiting.add_request(request)
        return False

    def _apply(self, plan: BalanceStep) -> set[str]:
        """Pause whom the plan wants out; the ids of those it lets in (V-054)."""
        for blocks in plan.out_blocks:
            for request in self.running:
                if self.load(request) == blocks:
                    self._pause(request)
                    break
        wanted = list(plan.in_blocks)
        admitted = set()
        for request in self._candidates:
            blocks = self.load(request)
            if blocks in wanted:
                wanted.remove(blocks)
                admitted.add(request.request_id)
        return admitted

    def _pause(self, request: Request) -> None:
        """Let a running request wait with its KV and its progress (V-055)."""
        self.leave_running([request])
        request.status = RequestStatus.PREEMPTED
        self.wait_in_front(request)


class DyntraLBScheduler(DyntraLBPolicy):
    """DyntraLB on a decode node."""


class DyntraLBRecomputeScheduler(DyntraLBPolicy, RecomputeScheduler):
    """DyntraLB on a decode node that offloads or gives back what does not fit (V-057)."""
