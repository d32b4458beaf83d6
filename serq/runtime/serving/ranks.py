"""Data-parallel ranks on the clock: engines of one family that step together (V-058, V-074 to V-076)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from serq.runtime.request_records import EngineRow
from serq.runtime.serving.engine import VllmEngine
from serq.runtime.serving.engine_log import EngineLog, StepInFlight
from serq.runtime.serving.planned_engine import EngineParts
from serq.runtime.stage import Waker
from serq.runtime.vllm.engine_core import IdleReason, Launch, Turn, WaitUntil
from serq.runtime.vllm.scheduler_output import SchedulerOutput

FINISH_SYNC_STEPS: Final = 32
"""The ranks ask each other whether anybody has requests left once in so many iterations (vLLM's DP core)."""


class RankEngine(VllmEngine):
    """One rank. Its group takes its turns, so that all ranks have a part in every round."""

    def __init__(
        self, name: str, member: int, host: Waker, parts: EngineParts, log: EngineLog, group: EngineGroup
    ) -> None:
        super().__init__(name, member, host, parts, log)
        self.dummy_steps = 0
        """Rounds since warm-up in which it had nothing to compute and ran a dummy batch."""
        self._group = group
        group.ranks.append(self)

    def idle(self) -> bool:
        """Whether the group has something to decide; its first rank answers for all."""
        return self is self._group.ranks[0] and self._group.ready()

    def begin(self) -> None:
        """Let the group go on."""
        self._group.begin()

    def _news(self) -> None:
        self._group.news()

    def take_turn(self, now: float) -> Turn:
        """What the rank does next."""
        return self._turn(now)

    def launch(self, step: SchedulerOutput, now: float) -> StepInFlight:
        """Note and price a step that was formed; how long the round takes is decided with the others."""
        self._launch(step, now)
        return self._steps[-1]

    def run_dummy(self) -> float:
        """Seconds of the dummy batch that a rank without work runs (V-076)."""
        self.dummy_steps += 1
        return self.price_alone(1 + self.resolved.config.num_spec_tokens, 1)

    def occupy(self, until: float) -> None:
        """The device is busy until then."""
        self._device_free_at = until

    def finish_step(self, now: float) -> None:
        """The oldest step is done."""
        self._finish(now)

    def reset(self, now: float) -> None:
        """Forget what warm-up measured (R-B-091)."""
        super().reset(now)
        self.dummy_steps = 0

    def engine_row(self, now: float) -> EngineRow:
        """The options of the engine and its figures since warm-up."""
        row = super().engine_row(now)
        row.dummy_steps = self.dummy_steps
        return row


class Round(msgspec.Struct, frozen=True):
    """One step of all ranks, until ``end``. ``members`` have a step in it, the others a dummy batch."""

    members: tuple[RankEngine, ...]
    end: float
    has_tokens: bool


class EngineGroup:
    """The ranks of one family in lock step.

    In every iteration each rank forms a step or, without work, runs a dummy batch; the round ends for all
    when the slowest is done. What arrives during a round is taken in at the next one. ``after_iteration`` is
    what the ranks tell each other then, and whether it is news: a rank that could schedule nothing tries
    again when it is, and whenever somebody has computed something. When the last request has ended, dummy
    batches go on until the next time that the ranks ask each other, as upstream's do.
    """

    def __init__(self, host: Waker) -> None:
        self.ranks: list[RankEngine] = []
        self.after_iteration: Callable[[], bool] = lambda: False
        self._host = host
        self._clock = host.clock
        self._rounds: deque[Round] = deque()
        self._number = 0
        self._iteration = 0
        """Iterations since the ranks began to run."""
        self._running = False
        self._device_free_at = 0.0
        self._has_news = False
        self._awaits_round = False

    def news(self) -> None:
        """Something has happened to a rank."""
        self._has_news = True
        self._host.attend(self.ranks[0])

    def ready(self) -> bool:
        """Whether the ranks have something to decide and do not wait for a round."""
        return self._has_news and not self._awaits_round

    def begin(self) -> None:
        """Let the ranks take their turns until they wait: for a round, or for a message."""
        now = self._clock.now
        self._has_news = False
        for rank in self.ranks:
            rank.take_in(now)
        while self._iterate(now):
            pass

    def _iterate(self, now: float) -> bool:
        """Form a round, and end the oldest if that is waited for; False: nothing more can be done now."""
        if not self._waits():
            formed = self._form(now)
            if formed is None:
                return False
            self._rounds.append(formed)
            if not self._waits():
                self._end_iteration(computed=True)
                return True
        self._awaits_round = True
        self._clock.at(max(now, self._rounds[0].end), self._end_round, self.ranks[0].rank + 1)
        return False

    def _waits(self) -> bool:
        """Whether a rank waits for the oldest round, or nobody computes anything in the newest."""
        if not self._rounds:
            return False
        return not self._rounds[-1].has_tokens or any(rank.core.waits for rank in self.ranks)

    def _form(self, now: float) -> Round | None:
        """What every rank does next; None: there is nothing to do, or nobody can do anything."""
        flights: dict[RankEngine, StepInFlight] = {}
        can_go_on = self._running
        for rank in self.ranks:
            rank.core.wave_step = self._iteration
            turn = rank.take_turn(now)
            if isinstance(turn, Launch):
                flights[rank] = rank.launch(turn.step, now)
            elif not isinstance(turn, WaitUntil) and turn.reason is not IdleReason.NO_REQUESTS:
                rank.stalled_reason = turn.reason
                can_go_on = False
        awaited = any(rank.core.in_flight for rank in self.ranks)
        if not (flights or awaited or can_go_on):
            return None
        self._running = True
        return self._start(flights, max(now, self._device_free_at))

    def _start(self, flights: dict[RankEngine, StepInFlight], start: float) -> Round:
        """Hand a round to the devices: it takes as long as its slowest rank."""
        computing = {rank for rank, flight in flights.items() if flight.step.total_num_scheduled_tokens}
        end = max(flights[rank].end if rank in computing else start + rank.run_dummy() for rank in self.ranks)
        for flight in flights.values():
            flight.end, flight.round_number = end, self._number
        for rank in self.ranks:
            rank.occupy(end)
        self._device_free_at = end
        self._number += 1
        return Round(tuple(flights), end, bool(computing))

    def _end_round(self) -> None:
        self._awaits_round = False
        self.news()
        now = self._clock.now
        done = self._rounds.popleft()
        for rank in done.members:
            rank.finish_step(now)
        self._end_iteration(computed=done.has_tokens)

    def _end_iteration(self, computed: bool) -> None:
        """The ranks tell each other what they must; now and then, whether anybody has requests left."""
        self._iteration += 1
        if self._iteration % FINISH_SYNC_STEPS == 0 and not any(
            rank.scheduler.has_unfinished_requests for rank in self.ranks
        ):
            self._running = False
            self._iteration = 0
        if self.after_iteration() or computed:
            for rank in self.ranks:
                rank.core.wake()
