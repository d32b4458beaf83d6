"""The loop of a straight program: arrivals, ends of iterations, and what follows at the same instant."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from serq.errors import RunError
from serq.ir import nodes
from serq.runtime.codegen import reading
from serq.runtime.hold import Hold, HoldPlan
from serq.runtime.straight.engine import StraightEngine
from serq.runtime.straight.entrance import Entrance
from serq.runtime.straight.resident import Resident
from serq.runtime.straight.shape import StraightProgram

if TYPE_CHECKING:
    from serq.runtime.clock import EventKey
    from serq.runtime.deployment import Deployment
    from serq.runtime.session import Session
    from serq.runtime.trace.replay import TracedSession
    from serq.runtime.workload import Workload
    from serq.runtime.world import World

_EVENTS_BETWEEN_REPORTS = 1_000


class StraightRun:
    """Lets time pass in a straight program: in the pools, stages and world of the run.

    Events are the same, in the same order, but none is on the clock: ends of iterations, arrivals, and the
    end of the warm-up.
    """

    def __init__(
        self,
        parts: StraightProgram,
        world: World,
        deployment: Deployment,
        functions: Mapping[str, Any],
        workload: Workload,
    ) -> None:
        self._world = world
        self._workload = workload
        self._at_once = parts.at_once
        """Whether all sessions arrive at the begin."""
        self._schedule = workload.schedule()
        self._replayed: TracedSession | None = None
        """What the session replays that arrives next."""
        self._arrival = self._warmup = self._outside = inf
        """When it arrives, when statistics begin, and the earlier of the two."""
        self._arrival_key: EventKey = (0.0, 0, 0)
        self._end_warmup: Callable[[], None] = _nothing
        self._clock = world.clock
        self._ready: deque[Resident] = deque()
        """Who goes on at this instant."""
        self._idle: list[StraightEngine] = []
        """Engines that may form an iteration when the instant has settled."""
        self._turn = 0
        """The rank of the engine that starts, or started last."""
        self._ended: StraightEngine | None = None
        """The engine whose iteration ends, or ended last; None: something else happens."""
        self._key: EventKey = (0.0, 0, 0)
        """The order of that among the events of its instant (see the clock)."""
        self._countdown = _EVENTS_BETWEEN_REPORTS
        plan: HoldPlan = functions[f"hold_{parts.hold.id}"]
        self._pools = plan.pools
        self._before, self._admitted, self._prefilled, self._decoded, self._after = (
            functions[f"straight_{name}"] for name in ("before", "admitted", "prefilled", "decoded", "after")
        )
        self.engines = self._engines(parts, plan, deployment)
        self._ends = [inf] * len(self.engines)
        """Before when nobody has to ask an engine anything; infinite where no iteration is under way."""
        self._places = {engine: place for place, engine in enumerate(self.engines)}
        self._engine_of = {engine.entrance.slots: engine for engine in self.engines}
        self._single = self.engines[0] if len(self.engines) == 1 else None
        self._only = self._single if parts.hold.units[0].pool.index is None else None
        """The engine of all sessions, where none chooses."""

    def _engines(
        self, parts: StraightProgram, plan: HoldPlan, deployment: Deployment
    ) -> tuple[StraightEngine, ...]:
        step = parts.engine.kind
        assert isinstance(step, nodes.Step) and not isinstance(step.cost, nodes.Via)
        budget = step.budget.value if isinstance(step.budget, nodes.Number) else inf
        found = []
        for stage, slots, memory in zip(
            deployment.engines(parts.engine.name),
            deployment.pools[parts.slots.name],
            deployment.pools[parts.memory.name],
            strict=True,
        ):
            engine = StraightEngine(stage, Entrance(slots, memory, plan), self._clock, self, budget)
            engine.fixed_cost = not reading.variables((step.cost,)) & {"now", "kv_decode"}
            engine.in_memory = step.memory is not None
            engine.keeps = parts.engine.count > 1
            found.append(engine)
        return tuple(found)

    # --- sessions ---------------------------------------------------------------------------------------

    def _arrive(self, session: Session) -> None:
        """``session`` has arrived; it goes on until it blocks or ends."""
        self._world.count_wake(session)
        self._before(session)
        now = self._clock.now
        engine = self._only or self._engine_of[self._pools(session)[0]]
        if not engine.entrance.join(session, now):
            self.end(session)
        elif not engine.busy:
            if engine not in self._idle:
                self._idle.append(engine)
        elif engine.quiet and len(engine.entrance.waiting) == 1:  # it may be admitted at the next end
            self._world.events += engine.pass_quietly(now)
            engine.quiet = 0
            self._ends[self._places[engine]] = engine.end

    def _plan_arrival(self) -> None:
        """Know when the next session arrives."""
        now = self._clock.now
        time, self._replayed = next(self._schedule, (inf, None))
        self._arrival, self._arrival_key = time, (now, 0, 0)
        self._outside = min(time, self._warmup)

    def _go_on(self) -> None:
        ready, now, count_wake = self._ready, self._clock.now, self._world.count_wake
        while ready:
            resident = ready.popleft()
            session, engine = resident.session, resident.engine
            count_wake(session)
            if resident.decoding:
                self._decoded(session)
                engine.leave(resident, now)
                self._after(session)
                self.end(session)
                continue
            resident.decoding = True
            tokens = self._prefilled(session)
            if tokens > 0.0:
                engine.enter(resident, tokens, now)
            else:
                resident.resumed = True
                ready.append(resident)

    def admit(self, resident: Resident, now: float) -> None:
        """A hold was admitted: its session goes on until it blocks or ends (R-B-041)."""
        self._world.count_wake(resident.session)
        tokens = self._admitted(resident.session)
        if tokens > 0.0:
            resident.engine.enter(resident, tokens, now)
        else:
            resident.resumed = True
            self._ready.append(resident)
            self._go_on()

    def end(self, session: Session) -> None:
        """The session is over; it holds nothing."""
        self._world.retire(session)

    # --- engines ----------------------------------------------------------------------------------------

    def _react(self) -> None:
        """When no other event is left at this instant, idle engines form iterations (R-B-005)."""
        idle, clock = self._idle, self._clock
        now = clock.now
        if self._outside <= now or (self._single is None and self._others_end(now)):
            return
        clock.begin_starts()
        if len(idle) > 1:
            idle.sort(key=_rank)
        for engine in idle:
            self._turn = engine.stage.rank
            engine.begin(now)
            if engine.busy:
                self._ends[self._places[engine]] = engine.asked_from()
        idle.clear()

    def _others_end(self, now: float) -> bool:
        """Whether an engine has still to be asked at this instant."""
        ends = self._ends
        while (end := min(ends)) <= now:
            engine = self.engines[ends.index(end)]
            if not engine.quiet:
                return True
            self._pass(engine, nextafter(now, inf))
        return False

    def _pass(self, engine: StraightEngine, bound: float) -> None:
        self._world.events += engine.pass_quietly(bound)
        self._ends[self._places[engine]] = engine.asked_from()

    def _next_engine(self, limit: float) -> StraightEngine | None:
        """The engine whose iteration ends next, if that comes before what happens outside, and ``limit``.

        Before that iterations end quietly.
        """
        outside = self._outside
        bound = outside if outside < limit else limit
        single = self._single
        if single is not None:
            if not single.busy:
                return None
            if single.quiet and self._ends[0] < bound:
                self._pass(single, bound)
            if single.quiet:
                return None
            end = single.end
            if end < bound:
                return single
        else:
            ends = self._ends
            while (end := min(ends)) < bound:
                engine = self.engines[ends.index(end)]
                if not engine.quiet:
                    return engine if ends.count(end) == 1 else self._first_at(end)
                self._pass(engine, bound)
        return self._first_at(end) if end == outside < limit else None

    def _first_at(self, end: float) -> StraightEngine | None:
        """Of the engines that have to be asked at ``end``, the one whose iteration ends first.

        None if what happens outside at that instant comes before it.
        """
        asked = [engine for engine in self.engines if engine.busy and engine.end == end and not engine.quiet]
        first = min(asked, key=_order, default=None)
        if first is None or (end == self._outside and not first.order < self._outside_key):
            return None
        return first

    # --- time -------------------------------------------------------------------------------------------

    def run(self, horizon: float, over: Callable[[], bool] | None, report: Callable[[], None]) -> None:
        """Let everything happen that is not later than ``horizon``, or until the run is ``over``.

        ``report`` is called now and then.
        """
        limit = nextafter(horizon, inf)
        try:
            self._begin()
            while over is None or not over():
                if not self._advance(horizon, limit):
                    self._come_up_to(limit)
                    return
                self._countdown -= 1
                if not self._countdown:
                    self._countdown = _EVENTS_BETWEEN_REPORTS
                    self._come_up_to(self._clock.now)
                    report()
        except RunError:
            self._break_off()
            raise

    def _begin(self) -> None:
        """The first sessions arrive, or the first arrival is planned (R-B-070)."""
        if self._at_once:
            self._workload.begin()
            arrived = self._world.ready
            while arrived:
                self._arrive(arrived.popleft())
            self._outside = self._warmup
            self._react()
        else:
            self._plan_arrival()

    def _advance(self, horizon: float, limit: float) -> bool:
        """Let the next event happen, if it is not later than ``horizon``, and all that follows at once."""
        clock, world = self._clock, self._world
        engine = self._next_engine(limit)
        if engine is not None:
            self._ended = engine
            clock.go_to(engine.end)
            self._ends[self._places[engine]] = inf
            self._ready.extend(engine.finish(clock.now))
            self._idle.append(engine)
            world.events += 1
            if self._ready:
                self._go_on()
        elif self._outside > horizon:
            return False
        else:
            self._ended, self._key = None, self._outside_key
            clock.go_to(self._outside)
            if self._warmup <= self._arrival:
                self._warm_up()
                world.events += 1
            else:
                session = self._workload.newcomer(self._replayed)
                world.count_arrival()
                self._plan_arrival()
                world.events += 1
                self._arrive(session)
        if self._idle:
            self._react()
        return True

    def _come_up_to(self, time: float) -> None:
        """All that ends before ``time`` has ended."""
        for engine in self.engines:
            if engine.quiet:
                self._pass(engine, time)

    @property
    def _outside_key(self) -> EventKey:
        """The order of what happens next outside of engines among the events of its instant."""
        return (0.0, 0, 0) if self._warmup <= self._arrival else self._arrival_key

    def let_warm_up(self, warmup: float, end_warmup: Callable[[], None]) -> None:
        """Statistics begin at ``warmup``, when ``end_warmup`` is called."""
        if warmup > 0.0:
            self._warmup, self._end_warmup = warmup, end_warmup

    def _warm_up(self) -> None:
        self._warmup = inf
        self._outside = self._arrival
        self._come_up_to(self._clock.now)
        for engine in self.engines:
            engine.entrance.account_slots(self._clock.now)
        self._end_warmup()

    # --- the end ----------------------------------------------------------------------------------------

    def _break_off(self) -> None:
        """A rule was broken at this event: engines stand as if time had come no further."""
        clock = self._clock
        starting = clock.phase % 2 == 1
        key = self._key if self._ended is None else self._ended.order
        key = (inf, 0, 0) if starting else key
        for engine in self.engines:
            begun = starting and engine.stage.rank < self._turn
            self._world.events += engine.stand_at(clock.now, key, begun=begun)

    def hand_back(self) -> None:
        """The run is over: who waits stands in the queues of the pools, and ends to come are on the clock."""
        for engine in self.engines:
            entrance = engine.entrance
            if engine.quiet:  # at Ctrl-C
                self._pass(engine, self._clock.now)
            for session, joined in entrance.waiting:
                entrance.slots.queue.join(Hold(entrance.plan, session, joined))
            entrance.waiting.clear()
            if engine.busy:
                self._clock.at(engine.end, _nothing)
        self._clock.at(self._outside, _nothing)


def _rank(engine: StraightEngine) -> int:
    return engine.stage.rank


def _order(engine: StraightEngine) -> tuple[float, int, int]:
    return engine.order


def _nothing() -> None:
    pass
