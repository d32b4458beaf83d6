"""What happens at one instant: sessions that are ready, pumps, starts of engines (R-B-004 to R-B-007)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from serq.errors import RunError
from serq.runtime.clock import Clock
from serq.runtime.flows import FlowNetwork
from serq.runtime.holdings import Holdings
from serq.runtime.planned_run import PlanningStage
from serq.runtime.pool import Pool
from serq.runtime.session import Preempted, Session
from serq.runtime.stage import BatchingStage, Stage
from serq.runtime.stations import SharedStation

_WAKES_AT_ONCE = 1_000
_STATEMENTS_AT_ONCE = 1_000_000
_EVENTS_AT_ONCE = 10_000_000


class World:
    """Everything that lives in a run, and the order in which it acts.

    After every event the machine settles: ready sessions run in the order in which they became ready, each
    until it blocks; when none is ready the pools are pumped; and so on until nothing changes (R-B-004).
    Then stages react: when no other event is left at this instant, idle engines start, in the order of
    declaration (R-B-005), and nothing is settled after that (R-B-006).
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.holdings = Holdings(self)
        self.pools: list[Pool] = []
        self.reacting: dict[int, BatchingStage | SharedStation] = {}
        """Stages that act after an instant has settled, by rank: in the order of declaration."""
        self.network: FlowNetwork | None = None
        self.stage_count = 0
        self.on_session_end: Callable[[Session], None] = lambda session: None
        self.live = 0
        """Sessions that have arrived and not ended."""
        self.ended = 0
        self.events = 0
        self.planners: list[PlanningStage] = []
        """Stages that may plan step ends ahead, which then are no events."""
        self.followed: list[PlanningStage] = []
        """Those whose plans change what others see: they are followed to every event."""
        self.unwatched = False
        """Whether nobody sees what plans change: they are cut only where something happens to them."""
        self.calm_arrivals = False
        """Whether that is so of sessions that arrive: they cut the plans that they change."""
        self.headers_change = False
        """Whether some hold, or some order of waiting, reads what changes by itself: time, or live state."""
        self.restless = False
        """Whether somebody asks anew at every event, so that every step end must be one."""
        self._asking: set[int] = set()
        """Numbers of the pools at which somebody may wait."""
        self._attended: set[int] = set()
        """Ranks of the stages that may have something to do."""
        self._turns: list[int] = []
        """Those of them whose turn is still to come at this instant, as a heap."""
        self._turn: float = inf
        """The rank whose turn it is; infinite while no stage has its turn."""
        self.ready: deque[Session] = deque()
        """Sessions that go on at this instant, in the order in which they became ready."""
        self._running: Session | None = None
        self._live_time = 0.0
        self._live_since = 0.0
        self._events_at_once = 0

    # --- sessions ---------------------------------------------------------------------------------------

    def arrive(self, session: Session) -> None:
        """A session has arrived; it is ready."""
        self.count_arrival()
        self.wake(session)

    def count_arrival(self) -> None:
        """One session more is live."""
        self._account_live()
        self.live += 1

    def wake(self, session: Session) -> None:
        """Let ``session`` go on after all that became ready before it (R-A-068)."""
        session.blocked_on = None
        session.ready = True
        self.ready.append(session)

    def _resume(self, session: Session) -> None:
        """Run ``session`` until it blocks or ends."""
        session.ready = False
        self.count_wake(session)
        outer, self._running = self._running, session
        over = next(session.statements, True)
        self._running = outer
        if over:
            self._end(session)

    def count_wake(self, session: Session) -> None:
        """``session`` goes on now. Raises RunError where it does so without end at one instant (R-A-096)."""
        now = self.clock.now
        if session.instant != now:
            session.instant = now
            session.wakes, session.statement_count = 1, 0
            return
        session.wakes += 1
        if session.wakes > _WAKES_AT_ONCE:
            raise RunError(
                f"the session became ready {_WAKES_AT_ONCE:,} times at one instant: it goes round without "
                "letting time pass",
                session=session.number,
                code="no-time-passes",
            )

    def preempt(self, session: Session, depth: int) -> None:
        """Unwind ``session`` to its hold number ``depth``, which runs again from its header (R-A-076).

        Raises Preempted where it is the session that runs now.
        """
        if session is self._running:
            raise Preempted(depth)
        session.ready = False
        outer, self._running = self._running, session
        try:
            session.statements.throw(Preempted(depth))
            over = False
        except StopIteration:
            over = True
        self._running = outer
        if over:
            self._end(session)

    def count_statements(self, session: Session, count: int) -> None:
        """Guard of loops in which no statement blocks (R-A-096)."""
        session.statement_count += count
        if session.statement_count > _STATEMENTS_AT_ONCE:
            raise RunError(
                f"the session executed {_STATEMENTS_AT_ONCE:,} statements at one instant: its loop lets no "
                "time pass",
                session=session.number,
                code="no-time-passes",
            )

    def _end(self, session: Session) -> None:
        """The session is over: it gives everything back (R-A-088). Others get it when the instant settles."""
        self.holdings.abandon(session)
        self.retire(session)
        self.on_session_end(session)
        session.requests.clear()  # nothing looks at them now, and they look at the session

    def retire(self, session: Session) -> None:
        """``session`` is over, and has nothing to give back."""
        session.live = False
        self._account_live()
        self.live -= 1
        self.ended += 1

    # --- one instant ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Run ready sessions and pump until nothing changes."""
        while True:
            self._run_ready()
            if not (self._asking and self.pump()):
                return

    def _run_ready(self) -> None:
        """Run ready sessions, and those that become ready meanwhile, until none is."""
        ready, resume = self.ready, self._resume
        while ready:
            session = ready.popleft()
            if session.ready:
                resume(session)

    def run_admitted(self, session: Session) -> None:
        """An engine admitted ``session``: it and all that it makes ready run inside the forming (R-B-041)."""
        self.wake(session)
        self._run_ready()

    def pump(self) -> bool:
        """Sweep the pools in declaration order until nothing changes: growers, then the queue (R-A-061).

        Admitted sessions become ready; they do not run yet. Queues that an engine serves are left alone.
        Returns whether anything changed.
        """
        asking = self._asking
        changed = False
        again = bool(asking)
        while again:
            again = False
            for number in sorted(asking):
                pool = self.pools[number]
                again = self._serve_pool(pool) or again
                if not pool.growers and (pool.admitted_by_engine or not len(pool.queue)):
                    asking.discard(number)
            changed = changed or again
        return changed

    def _serve_pool(self, pool: Pool) -> bool:
        """Growers of ``pool`` while they fit, then heads of its queue while they fit. Whether any did."""
        holdings = self.holdings
        served = False
        while pool.growers and holdings.try_grower(pool):
            served = True
        while not pool.admitted_by_engine and len(pool.queue):
            session = holdings.try_head(pool)
            if session is None:
                break
            self.wake(session)
            served = True
        return served

    def ask(self, pool: Pool, leads: bool = True) -> None:
        """Somebody waits at ``pool``: look at it in pumps, or let its engines see to it.

        ``leads``: this one may be tried first, so what its engines planned without it is over.
        """
        self._asking.add(pool.number)
        for engine in pool.engines:
            self.attend(engine)
            if leads and self.unwatched and isinstance(engine, PlanningStage):
                engine.cut()

    def cut_plans(self) -> None:
        """Something happens of which nobody knows what it changes."""
        for planner in self.planners:
            planner.cut()

    def attend(self, stage: Stage) -> None:
        """Look at ``stage`` in :meth:`react`; in the midst of it, if its turn is still to come."""
        rank = stage.rank
        if rank not in self._attended:
            self._attended.add(rank)
            if rank > self._turn:
                heappush(self._turns, rank)

    def react(self) -> None:
        """Stages that have something to do answer what has settled, in the order of declaration.

        A shared station plans anew when its population has changed. An idle engine forms an iteration, if
        no other event is left at this instant: so an iteration sees every arrival up to it (R-B-005). Shared
        stations that get work in this are next, flows come last.
        """
        clock = self.clock
        alone = clock.next_time() > clock.now
        if alone:
            clock.begin_starts()
        changes = self.holdings.changes
        restless = self.headers_change and bool(self._asking)
        if self._attended:
            restless = self._take_turns(alone) or restless
        if self.network is not None and self.network.changed:
            clock.rank = 2 * self.stage_count if alone else 0
            self.network.plan()
            clock.rank = 0
        if alone:
            restless = restless or (bool(self._asking) and self.holdings.changes != changes)
            if restless or self.restless or self.followed:
                self._look_ahead(restless)

    def _take_turns(self, alone: bool) -> bool:
        """Let the attended stages act; whether one that could start found nothing to do."""
        clock, attended = self.clock, self._attended
        restless = False
        turns = self._turns = sorted(attended)
        while turns:
            rank = self._turn = heappop(turns)
            stage = self.reacting[rank]
            clock.rank = rank if alone else 0
            if isinstance(stage, SharedStation):
                attended.discard(rank)
                stage.plan()
            elif not stage.idle():
                attended.discard(rank)
            elif alone:
                stage.begin()
                restless = restless or stage.idle()
        self._turn = inf
        clock.rank = 2 * self.stage_count if alone else 0
        for rank in sorted(attended):
            stage = self.reacting[rank]
            if isinstance(stage, SharedStation):
                attended.discard(rank)
                stage.plan()
        clock.rank = 0
        return restless

    def _look_ahead(self, restless: bool) -> None:
        """The instant is over. Somebody is ``restless`` who will ask anew at the next event, whatever it is.

        That is an engine that found nothing to do, who waits on terms that change by themselves, and who
        came to wait, or for whom room was made, while engines started: nothing was settled since (R-B-006).
        """
        self.restless = restless
        if restless:
            self.cut_plans()
        for follower in self.followed:
            follower.reconsider()

    def has_begun(self, rank: int) -> bool:
        """Whether the stage of ``rank`` has had its turn at this instant."""
        phase = self.clock.phase
        return rank < self._turn if phase == 1 else phase > 1

    def count_events(self, count: int) -> None:
        """Step ends of a planned run have happened, each of which is an event."""
        self.events += count

    def advance(self, horizon: float) -> bool:
        """Let the next event not later than ``horizon`` happen, and all that follows at once from it."""
        clock = self.clock
        before = clock.now
        if self.followed:
            time = clock.next_time()
            if time <= horizon:
                for stage in self.followed:
                    stage.stand_before(time)
        if not clock.advance(horizon):
            return False
        self.events += 1
        self._events_at_once = 0 if clock.now != before else self._events_at_once + 1
        if self._events_at_once > _EVENTS_AT_ONCE:
            raise RunError(
                f"{_EVENTS_AT_ONCE:,} events at one instant: time does not pass", code="no-time-passes"
            )
        self.settle()
        self.react()
        return True

    # --- figures ----------------------------------------------------------------------------------------

    @property
    def idle_since(self) -> float:
        """Since when as many sessions live as now; warm-up begins anew."""
        return self._live_since

    def _account_live(self) -> None:
        now = self.clock.now
        self._live_time += self.live * (now - self._live_since)
        self._live_since = now

    def reset(self) -> None:
        """Forget what warm-up measured (R-B-091)."""
        self._account_live()
        self._live_time = 0.0
        self.ended = 0

    def stand(self, *, live: int, ended: int, live_time: float, since: float, events: int) -> None:
        """Stand as if what somebody else has counted had happened here, up to the instant ``since``."""
        self.live, self.ended, self.events = live, ended, events
        self._live_time, self._live_since = live_time, since

    def live_time(self) -> float:
        """The integral of the number of live sessions since warm-up (R-B-114)."""
        self._account_live()
        return self._live_time
