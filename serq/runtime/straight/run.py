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
    from serq.runtime.world import World

_EVENTS_BETWEEN_REPORTS = 1_000


class StraightRun:
    """Lets time pass in a straight program: in the pools, stages and world of the run.

    Events are the same, in the same order: ends of iterations are kept here, all others on the clock.
    """

    def __init__(
        self, parts: StraightProgram, world: World, deployment: Deployment, functions: Mapping[str, Any]
    ) -> None:
        self._world = world
        self._clock = world.clock
        self._ready: deque[Resident] = deque()
        """Who goes on at this instant."""
        self._idle: list[StraightEngine] = []
        """Engines that may form an iteration when the instant has settled."""
        self._turn = 0
        """The rank of the engine that starts, or started last."""
        self._key: EventKey = (0.0, 0, 0)
        """The order of the event that happens among those of its instant (see the clock)."""
        self._countdown = _EVENTS_BETWEEN_REPORTS
        plan: HoldPlan = functions[f"hold_{parts.hold.id}"]
        self._pools = plan.pools
        self._before, self._admitted, self._prefilled, self._decoded, self._after = (
            functions[f"straight_{name}"] for name in ("before", "admitted", "prefilled", "decoded", "after")
        )
        self.engines = self._engines(parts, plan, deployment)
        self._ends = [inf] * len(self.engines)
        """When the iterations under way end, engine by engine; infinite where there is none."""
        self._places = {engine: place for place, engine in enumerate(self.engines)}
        self._engine_of = {engine.entrance.slots: engine for engine in self.engines}
        self._clock.before_others = self._account

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

    def settle(self) -> None:
        """Sessions that have arrived, and those whose runs are done, go on until they block or end."""
        arrived = self._world.ready
        while arrived:
            self._arrive(arrived.popleft())
        if self._ready:
            self._go_on()

    def _arrive(self, session: Session) -> None:
        session.ready = False
        self._world.count_wake(session)
        self._before(session)
        engine = self._engine_of[self._pools(session)[0]]
        if not engine.join(session, self._clock.now):
            self.end(session)
        elif not engine.busy and engine not in self._idle:
            self._idle.append(engine)

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
                ready.append(resident)

    def admit(self, resident: Resident, now: float) -> None:
        """A hold was admitted: its session goes on until it blocks or ends (R-B-041)."""
        self._world.count_wake(resident.session)
        tokens = self._admitted(resident.session)
        if tokens > 0.0:
            resident.engine.enter(resident, tokens, now)
        else:
            self._ready.append(resident)
            self._go_on()

    def end(self, session: Session) -> None:
        """The session is over; it holds nothing."""
        self._world.retire(session)

    # --- engines ----------------------------------------------------------------------------------------

    def react(self) -> None:
        """When no other event is left at this instant, idle engines form iterations (R-B-005)."""
        idle, ends, clock = self._idle, self._ends, self._clock
        if not idle:
            return
        now = clock.now
        if clock.next_time() <= now:
            return
        while (end := min(ends)) <= now:
            engine = self.engines[ends.index(end)]
            if not engine.quiet:
                return
            self._pass(engine, nextafter(now, inf))
        clock.begin_starts()
        if len(idle) > 1:
            idle.sort(key=_rank)
        for engine in idle:
            self._turn = engine.stage.rank
            engine.begin(now)
            if engine.busy:
                ends[self._places[engine]] = engine.end
        idle.clear()

    def _pass(self, engine: StraightEngine, bound: float) -> None:
        self._world.events += engine.pass_quietly(bound)
        self._ends[self._places[engine]] = engine.end

    def _next_engine(self, time: float, limit: float) -> StraightEngine | None:
        """The engine whose iteration ends next, if that comes before what is on the clock for ``time``.

        Before that, and before ``limit``, iterations end quietly.
        """
        ends = self._ends
        bound = time if time < limit else limit
        while (end := min(ends)) < bound:
            engine = self.engines[ends.index(end)]
            if not engine.quiet:
                return engine if len(ends) == 1 else self._first_at(end)
            self._pass(engine, bound)
        if end == time < limit:
            first = self._first_at(end)
            if first is not None and first.order < self._clock.next_event()[1]:
                return first
        return None

    def _first_at(self, end: float) -> StraightEngine | None:
        """Of the engines that have to be asked at ``end``, the one whose iteration ends first."""
        asked = [engine for engine in self.engines if engine.busy and engine.end == end and not engine.quiet]
        return min(asked, key=_order) if asked else None

    # --- time -------------------------------------------------------------------------------------------

    def run(self, horizon: float, over: Callable[[], bool] | None, report: Callable[[], None]) -> None:
        """Let everything happen that is not later than ``horizon``, or until the run is ``over``.

        ``report`` is called now and then.
        """
        limit = nextafter(horizon, inf)
        try:
            self.settle()
            self.react()
            while over is None or not over():
                if not self._advance(horizon, limit):
                    return
                self._countdown -= 1
                if not self._countdown:
                    self._countdown = _EVENTS_BETWEEN_REPORTS
                    report()
        except RunError:
            self._break_off()
            raise

    def _advance(self, horizon: float, limit: float) -> bool:
        clock = self._clock
        engine = self._next_engine(clock.next_time(), limit)
        if engine is not None:
            now, self._key = engine.end, engine.order
            clock.go_to(now)
            self._ends[self._places[engine]] = inf
            self._ready.extend(engine.finish(now))
            self._idle.append(engine)
            self._world.events += 1
            if self._ready:
                self._go_on()
        elif clock.advance(horizon):
            self._key = clock.event_key
            self._world.events += 1
            self.settle()
        else:
            return False
        self.react()
        return True

    def _account(self) -> None:
        """Something happens that looks at the pools: the warm-up ends."""
        for engine in self.engines:
            engine.entrance.account_slots(self._clock.now)

    # --- the end ----------------------------------------------------------------------------------------

    def _break_off(self) -> None:
        """A rule was broken at this event: engines stand as if time had come no further."""
        clock = self._clock
        starting = clock.phase % 2 == 1
        key = (inf, 0, 0) if starting else self._key
        for engine in self.engines:
            begun = starting and engine.stage.rank < self._turn
            self._world.events += engine.stand_at(clock.now, key, begun=begun)

    def hand_back(self) -> None:
        """The run is over: who waits stands in the queues of the pools, and ends to come are on the clock."""
        for engine in self.engines:
            entrance = engine.entrance
            for session, joined in entrance.waiting:
                entrance.slots.queue.join(Hold(entrance.plan, session, joined))
            entrance.waiting.clear()
            if engine.busy:
                self._clock.at(engine.end, _nothing)


def _rank(engine: StraightEngine) -> int:
    return engine.stage.rank


def _order(engine: StraightEngine) -> tuple[float, int, int]:
    return engine.order


def _nothing() -> None:
    pass
