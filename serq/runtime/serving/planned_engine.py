"""What of an engine is planned: the steps ahead, and how the engine follows them (law L1)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Set
from itertools import pairwise

import msgspec

from serq.runtime.planned_run import PlannedRun, PlanningStage
from serq.runtime.pricing import MeteredExecutor
from serq.runtime.serving.decode_plans import DecodeCost, StepsAhead, plan_steps
from serq.runtime.serving.engine_log import EngineLog, StepInFlight
from serq.runtime.serving.options import ResolvedEngine
from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.serving.step_totals import StepTotals
from serq.runtime.serving.transfer_link import TransferLink
from serq.runtime.stage import Waker
from serq.runtime.vllm.engine_core import EngineCore, Launch
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.fast.scheduler import FastScheduler
from serq.runtime.vllm.request import Hasher, Request
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_output import ScheduledRequest, SchedulerOutput


class ExpressionPrice(msgspec.Struct, frozen=True):
    """The cost of a step as an expression: a function of its totals, and the names of those it reads."""

    cost: Callable[[StepTotals], float]
    reads: Set[str]


class EngineParts(msgspec.Struct, frozen=True):
    """What an engine is made of: options, scheduler, what prices steps, whose prefixes it knows, a link.

    ``decode_cost`` prices steps that are planned; without it, for the reason that ``walks`` names, none is.
    """

    resolved: ResolvedEngine
    scheduler: VllmScheduler
    price: ExpressionPrice | MeteredExecutor
    hasher: Hasher | None
    link: TransferLink | None = None
    """What the transfers of its `kv_connector` take."""
    decode_cost: DecodeCost | None = None
    walks: WalkReason | None = None


class PlannedEngine(PlanningStage):
    """An engine core on the clock, and its steps in flight; a subclass forms and finishes single steps."""

    def __init__(
        self, name: str, member: int, host: Waker, parts: EngineParts, core: EngineCore, log: EngineLog
    ) -> None:
        super().__init__(name, member, host)
        self.parts = parts
        self.scheduler = parts.scheduler
        self.scheduler.observer = log.queue
        self.core = core
        self.log = log
        self._steps: deque[StepInFlight] = deque()
        self._sent: dict[str, SentRequest] = {}
        self._device_free_at = 0.0
        self._fast = parts.scheduler if isinstance(parts.scheduler, FastScheduler) else None
        self._decode_cost = parts.decode_cost
        self._always_walks = parts.walks
        self._ahead = StepsAhead([])
        self._last_end = 0.0
        """When the step ended that was processed last."""
        self.planned_steps = 0
        self.walked_steps: dict[WalkReason, int] = {}
        self._walks_for = WalkReason.START if parts.walks is None else parts.walks
        if self._fast is not None:
            self._fast.told = self._told

    @abstractmethod
    def _launch(self, step: SchedulerOutput, now: float) -> None:
        """Price a step that was formed and hand it to the device."""

    @abstractmethod
    def _finish(self, now: float) -> None:
        """The oldest step is done."""

    def _cut_for(self, reason: WalkReason) -> None:
        if self.plan is not None:
            self.cut()
            self._walks_for = reason

    def _plan(self, end: float, now: float) -> list[float]:
        """The step ends to put on the clock: that of the oldest step in flight, and those planned then."""
        cost = self._decode_cost
        if self._always_walks is not None or cost is None:
            return [end]
        run = self.core.steady()
        if isinstance(run, WalkReason):
            self._walks_for = run
            return [end]
        if self._host.restless or not end > now:
            self._walks_for = WalkReason.OTHERS if self._host.restless else WalkReason.INSTANT
            return [end]
        in_flight = [step.end for step in self._steps]
        if any(before >= after for before, after in pairwise(in_flight)):
            self._walks_for = WalkReason.INSTANT
            return [end]
        running, size = len(self.scheduler.running), self.scheduler.kv_cache_manager.config.cache_block_size
        self._ahead = plan_steps(run, cost, running, size, in_flight, self.horizon_of_plans)
        steps = len(self._ahead.free)
        if steps == run.limit:
            self._walks_for = WalkReason.FINISH
        else:
            looked = steps == self.horizon_of_plans
            self._walks_for = WalkReason.LOOKAHEAD if looked else WalkReason.BLOCKS
        return self._ahead.ends[: steps + 1]

    def follow(self, plan: PlannedRun, count: int) -> None:
        """The steps that ended by now were processed, and those after them formed (law L1)."""
        place, ends, fast = plan.followed, plan.ends, self._fast
        assert fast is not None
        for flight in tuple(self._steps):
            if place < count and flight.step.scheduled and fast.is_stale(flight.step):
                while flight in self._steps and place < count:
                    self._follow_walking(ends[place])
                    place += 1
        if place < count:
            self._follow_counting(place, count, fast)

    def _follow_walking(self, now: float) -> None:
        """One step of the run whose shares are not the usual ones: the walk does it, at its instant."""
        clock = self._clock
        before, clock.now = clock.now, now
        reason, self._walks_for = self._walks_for, WalkReason.PREFILL
        self._finish(now)
        turn = self.core.turn(now)
        assert isinstance(turn, Launch)
        self.log.account_blocks(now)
        self._launch(turn.step, now)
        self._walks_for = reason
        clock.now = before

    def _follow_counting(self, place: int, count: int, fast: FastScheduler) -> None:
        """Steps ``place`` to ``count - 1`` of the run end, and as many are formed."""
        ahead, steps, log = self._ahead, self._steps, self.log
        ends, frees, depth, ended = ahead.ends, ahead.free, len(steps), count - place
        running, waiting = len(fast.running), fast.num_waiting
        if ended == 1:
            log.account_blocks(ends[place])
        else:
            free = fast.kv_cache_manager.block_pool.num_free_blocks
            log.account_blocks_over(ends[place:count], [free, *frees[place : count - 1]])
        usual = fast.decodes.count
        for now in ends[place : min(place + depth, count)]:
            done = steps.popleft()
            log.step_ended(done)
            if done.step.scheduled:
                self._deliver_first_tokens(done.step, now)
        self.core.advance(ended, ends[count - 1])
        assert self._decode_cost is not None
        self._decode_cost.formed(place, count)
        if ended > depth:
            last = count - depth
            log.decodes_ended(
                formed=ends[place:last],
                starts=ends[place + depth - 1 : last + depth - 1],
                ends=ends[place + depth : count],
                free_blocks=frees[place:last],
                count=usual,
                running=running,
                waiting=waiting,
            )
            place = last
        for number in range(place, count):
            step = self.core.in_flight[number - count]
            begin, end = ends[number + depth - 1], ends[number + depth]
            tokens, free = step.total_num_scheduled_tokens, frees[number]
            steps.append(StepInFlight(step, ends[number], begin, end, 0, running, waiting, free, tokens))
        self._last_end = ends[count - 1]
        self._device_free_at = steps[-1].end
        self.iterations += ended
        self.log.queue.formed += ended
        self.planned_steps += ended

    def _deliver_first_tokens(self, step: SchedulerOutput, now: float) -> None:
        """A step of the run ended in which prompts were computed."""
        assert self._fast is not None
        for share in step.scheduled.values():
            if not share.is_decode:
                self._note_progress(share)
        for request in self._fast.deliver_first_tokens(step):
            self._note_token(self._sent[request.request_id], now)

    def _note_progress(self, share: ScheduledRequest) -> None:
        """A share of a prompt was computed."""
        sent = self._sent.get(share.request.request_id)
        if sent is not None:
            sent.best_position = max(sent.best_position, share.num_computed_tokens + share.num_tokens)

    def _note_token(self, sent: SentRequest, now: float) -> None:
        """The step that was noted last brought a request something."""
        sent.deliveries += 1
        sent.last_time = now
        self.log.queue.delivered(sent, now)
        if sent.deliveries == 1:
            sent.first_time = now
            self.log.first_token(sent)

    def count_walked(self) -> None:
        """A step with tokens was formed by itself."""
        self.walked_steps[self._walks_for] = self.walked_steps.get(self._walks_for, 0) + 1

    def reasons_walked(self) -> tuple[tuple[str, int], ...]:
        """(Reason, steps), the most frequent first."""
        counts = ((reason.value, count) for reason, count in self.walked_steps.items())
        return tuple(sorted(counts, key=lambda entry: -entry[1]))

    def tell_all(self) -> None:
        """Write into all requests what was counted for them by now."""
        self.catch_up()
        if self._fast is not None:
            self._fast.tell_all()

    def tell(self, request: Request) -> None:
        """Write into ``request`` the tokens that were counted for it."""
        if self._fast is not None:
            self._fast.tell(request)

    def _told(self, request: Request) -> None:
        """Tokens of a request that were counted are written into it now."""
        sent = self._sent[request.request_id]
        sent.deliveries = request.num_output_tokens
        sent.last_time = self._last_end
