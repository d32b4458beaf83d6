"""The engine's loop without a clock: what to do next, given the time and what has happened.

The caller owns time. It hands in messages with ``intake``, asks ``turn`` what comes next and does it:
runs a launched step, waits for a step's end and reports it with ``finish``, or idles until something
happens. A replay of a recorded trace and a simulation drive the same object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum, auto

import msgspec

from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.fast.scheduler import FastScheduler
from serq.runtime.vllm.fast.steady_run import SteadyRun
from serq.runtime.vllm.request import Request, RequestStatus, Time
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import PauseState
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput


class AddRequest(msgspec.Struct, frozen=True):
    """A request arrives."""

    request: Request


class AbortRequest(msgspec.Struct, frozen=True):
    """A client gives up on a request; unknown and finished ids are ignored (S-140)."""

    request_id: str


class ResetPrefixCache(msgspec.Struct, frozen=True):
    """Forget cached prefixes, if need be at the cost of the running requests (S-141, S-142)."""

    reset_running_requests: bool = False


class SetPauseState(msgspec.Struct, frozen=True):
    """Pause or go on (S-143)."""

    state: PauseState


Message = AddRequest | AbortRequest | ResetPrefixCache | SetPauseState


class EngineObserver:
    """Hears what messages did. Nothing it does may change the engine."""

    def aborted(self, request: Request, now: Time) -> None:
        """``request`` ended because its client gave up."""

    def reset(self, succeeded: bool, preempted: list[Request], now: Time) -> None:
        """The prefix cache was reset, or not, at the cost of ``preempted``."""


class Launch(msgspec.Struct, frozen=True):
    """A step was formed: run it, after those launched before."""

    step: SchedulerOutput


class WaitUntil(msgspec.Struct, frozen=True):
    """Nothing to do until ``step``, the oldest in flight, has run; then call ``finish``."""

    step: SchedulerOutput


class IdleReason(Enum):
    """Why there is nothing to do."""

    NO_REQUESTS = auto()
    """Only a message helps."""
    BLOCKED = auto()
    """Requests remain, but nothing can be scheduled until a message comes or a transfer ends."""
    UNDECIDED = auto()
    """The same, and a connector has not made up its mind: ask again soon."""


class Idle(msgspec.Struct, frozen=True):
    """Nothing to do; after time has passed call ``wake``, or ``intake``, and ``turn`` again."""

    reason: IdleReason


Turn = Launch | WaitUntil | Idle


class EngineCore:
    """Drives a scheduler with up to ``max_concurrent_batches`` steps in flight (S-007, S-103).

    With one step in flight this is the synchronous engine, with two the asynchronous one: the queue of
    steps is filled before anything is waited for.
    """

    def __init__(self, scheduler: VllmScheduler, observer: EngineObserver | None = None) -> None:
        self.scheduler = scheduler
        self.observer = observer or EngineObserver()
        self.in_flight: deque[SchedulerOutput] = deque()
        self._capacity = scheduler.config.max_concurrent_batches
        self._interval = scheduler.config.prefill_schedule_interval
        self._inbox: deque[Message] = deque()
        self.wave_step = 0
        """Turns since the engine was without requests; data-parallel ranks count theirs together (S-150)."""
        self._must_wait = False
        self._executed = False
        self._changed = False
        self._blocked = False

    @property
    def waits(self) -> bool:
        """Whether nothing can be decided before the oldest step in flight has run."""
        return self._must_wait

    # ---- what happens to the engine -----------------------------------------

    def intake(self, messages: Iterable[Message]) -> None:
        """Hand in messages, in order; they are read at the next turn, aborts before the next output."""
        self._inbox.extend(messages)

    def wake(self) -> None:
        """Time has passed or a transfer has ended: a blocked engine should try again."""
        self._blocked = False

    def turn(self, now: Time) -> Turn:
        """What to do at ``now``."""
        if self._must_wait:
            return WaitUntil(self.in_flight[0])
        if self._inbox:
            self._blocked = False
            while self._inbox:
                self._apply(self._inbox.popleft(), now)
        if self._blocked:
            return Idle(IdleReason.UNDECIDED if self._undecided() else IdleReason.BLOCKED)
        if self.scheduler.has_requests:
            return Launch(self._launch(now))
        if self.in_flight:
            self._must_wait = True
            self._executed = False
            return WaitUntil(self.in_flight[0])
        self.wave_step = 0
        return Idle(IdleReason.NO_REQUESTS)

    def _launch(self, now: Time) -> SchedulerOutput:
        """Form a step; wait for the oldest one if the queue is full or nothing is left to do (S-103)."""
        throttle = self.wave_step % self._interval != 0
        self._changed = False
        step = self.scheduler.schedule(now, throttle_prefills=throttle)
        self.in_flight.append(step)
        self._executed = step.total_num_scheduled_tokens > 0
        full = len(self.in_flight) >= self._capacity
        self._must_wait = full or not (self._executed or self.scheduler.has_requests)
        if not self._must_wait:
            self._end_turn()
        return step

    def finish(self, output: ModelOutput, now: Time) -> list[RequestOutput]:
        """The oldest step in flight has run: aborts that came meanwhile, then its output (S-007)."""
        step = self.in_flight.popleft()
        self._must_wait = False
        if self._inbox:
            self._apply_early_aborts(now)
        if step.total_num_scheduled_tokens or output.reports_transfers:
            self._changed = True
        outputs = self.scheduler.update_from_output(step, output, now)
        if output.num_drafts and not self.scheduler.config.async_scheduling:
            self.scheduler.update_draft_token_ids(output.num_drafts)
        self._end_turn()
        return outputs

    def _end_turn(self) -> None:
        """Count the turn, and see whether another one could do anything."""
        self.wave_step += 1
        runs = self._executed or any(step.total_num_scheduled_tokens for step in self.in_flight)
        self._blocked = not (runs or self._changed) and self.scheduler.has_requests

    def _undecided(self) -> bool:
        """Whether a request waits only because its connector does not know yet (S-130)."""
        undecided = (RequestStatus.WAITING, RequestStatus.PREEMPTED)
        return any(request.status in undecided for request in self.scheduler.skipped_waiting)

    # ---- ahead ------------------------------------------------------------------

    def steady(self) -> SteadyRun | WalkReason:
        """The turns that would follow alike if no message came; asked while a step is waited for."""
        scheduler = self.scheduler
        if self._inbox:
            return WalkReason.MESSAGE
        if not isinstance(scheduler, FastScheduler):
            return WalkReason.SCHEDULER
        if not self._must_wait or len(self.in_flight) != self._capacity:
            return WalkReason.START
        return scheduler.steady(self.in_flight)

    def advance(self, count: int, now: Time) -> None:
        """Let ``count`` steps end and as many be formed, the last of them at ``now``: law L1.

        They are among those that :meth:`steady` foresaw, and no share of those that end is written down.
        """
        scheduler = self.scheduler
        assert isinstance(scheduler, FastScheduler)
        formed = scheduler.advance(count, min(count, self._capacity), now)
        for _ in formed:
            self.in_flight.popleft()
        self.in_flight.extend(formed)
        self.wave_step += count
        self._changed = self._blocked = False

    # ---- messages -------------------------------------------------------------

    def _apply(self, message: Message, now: Time) -> None:
        scheduler = self.scheduler
        scheduler.now = now
        if isinstance(message, AddRequest):
            scheduler.add_request(message.request)
        elif isinstance(message, AbortRequest):
            self._abort([message.request_id], now)
        elif isinstance(message, SetPauseState):
            scheduler.pause_state = message.state
        else:
            succeeded, preempted = scheduler.reset_prefix_cache(
                reset_running_requests=message.reset_running_requests
            )
            self.observer.reset(succeeded, preempted, now)

    def _apply_early_aborts(self, now: Time) -> None:
        """Aborts of requests the scheduler knows take effect before the output (S-140)."""
        known = self.scheduler.requests
        early = [m for m in self._inbox if isinstance(m, AbortRequest) and m.request_id in known]
        if early:
            self._inbox = deque(message for message in self._inbox if message not in early)
            self._abort([message.request_id for message in early], now)

    def _abort(self, request_ids: list[str], now: Time) -> None:
        self.scheduler.now = now
        for request in self.scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED):
            self._changed = True
            self.observer.aborted(request, now)
