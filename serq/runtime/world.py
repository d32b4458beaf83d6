"""What happens at one instant: sessions that are ready, pumps, starts of engines (R-B-004 to R-B-007)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from serq.errors import RunError
from serq.runtime.clock import Clock
from serq.runtime.flows import FlowNetwork
from serq.runtime.holdings import Holdings
from serq.runtime.pool import Pool
from serq.runtime.session import Preempted, Session
from serq.runtime.stage import BatchingStage
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
        self.reacting: list[BatchingStage | SharedStation] = []
        """Stages that act after an instant has settled, in the order of declaration."""
        self.network: FlowNetwork | None = None
        self.stage_count = 0
        self.on_session_end: Callable[[Session], None] = lambda session: None
        self.live = 0
        """Sessions that have arrived and not ended."""
        self.ended = 0
        self.events = 0
        self._ready: deque[Session] = deque()
        self._running: Session | None = None
        self._live_time = 0.0
        self._live_since = 0.0
        self._events_at_once = 0

    # --- sessions ---------------------------------------------------------------------------------------

    def admit_to_world(self, session: Session) -> None:
        """A session has arrived; it is ready."""
        self._account_live()
        self.live += 1
        self.wake(session)

    def wake(self, session: Session) -> None:
        """Let ``session`` go on after all that became ready before it (R-A-068)."""
        session.blocked_on = None
        session.ready = True
        self._ready.append(session)

    def _resume(self, session: Session) -> None:
        """Run ``session`` until it blocks or ends."""
        session.ready = False
        now = self.clock.now
        if session.instant != now:
            session.instant = now
            session.wakes = session.statement_count = 0
        session.wakes += 1
        if session.wakes > _WAKES_AT_ONCE:
            raise RunError(
                f"the session became ready {_WAKES_AT_ONCE:,} times at one instant: it goes round without "
                "letting time pass",
                session=session.number,
                code="no-time-passes",
            )
        outer, self._running = self._running, session
        over = next(session.statements, True)
        self._running = outer
        if over:
            self._end(session)

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
        session.live = False
        self._account_live()
        self.live -= 1
        self.ended += 1
        self.on_session_end(session)

    # --- one instant ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Run ready sessions and pump until nothing changes."""
        while True:
            self._run_ready()
            if not self.pump():
                return

    def _run_ready(self) -> None:
        """Run ready sessions, and those that become ready meanwhile, until none is."""
        ready = self._ready
        while ready:
            session = ready.popleft()
            if session.ready:
                self._resume(session)

    def run_admitted(self, session: Session) -> None:
        """An engine admitted ``session``: it and all that it makes ready run inside the forming (R-B-041)."""
        self.wake(session)
        self._run_ready()

    def pump(self) -> bool:
        """Sweep the pools in declaration order until nothing changes: growers, then the queue (R-A-061).

        Admitted sessions become ready; they do not run yet. Queues that an engine serves are left alone.
        Returns whether anything changed.
        """
        holdings = self.holdings
        changed = False
        again = True
        while again:
            again = False
            for pool in self.pools:
                while pool.growers and holdings.try_grower(pool):
                    again = True
                if pool.admitted_by_engine:
                    continue
                while len(pool.queue):
                    session = holdings.try_head(pool)
                    if session is None:
                        break
                    self.wake(session)
                    again = True
            changed = changed or again
        return changed

    def react(self) -> None:
        """Stages answer what has settled, in the order of declaration.

        A shared station plans anew when its population has changed. An idle engine forms an iteration, if
        no other event is left at this instant: so an iteration sees every arrival up to it (R-B-005). Flows
        come last.
        """
        clock = self.clock
        alone = clock.next_time() > clock.now
        if alone:
            clock.begin_starts()
        for stage in self.reacting:
            if isinstance(stage, BatchingStage):
                if alone and stage.idle():
                    clock.rank = stage.rank
                    stage.begin()
            elif stage.changed:
                clock.rank = stage.rank if alone else 0
                stage.plan()
        clock.rank = 2 * self.stage_count if alone else 0
        for stage in self.reacting:
            if isinstance(stage, SharedStation) and stage.changed:
                stage.plan()
        if self.network is not None and self.network.changed:
            self.network.plan()
        clock.rank = 0

    def advance(self, horizon: float) -> bool:
        """Let the next event not later than ``horizon`` happen, and all that follows at once from it."""
        before = self.clock.now
        if not self.clock.advance(horizon):
            return False
        self.events += 1
        self._events_at_once = 0 if self.clock.now != before else self._events_at_once + 1
        if self._events_at_once > _EVENTS_AT_ONCE:
            raise RunError(
                f"{_EVENTS_AT_ONCE:,} events at one instant: time does not pass", code="no-time-passes"
            )
        self.settle()
        self.react()
        return True

    # --- figures ----------------------------------------------------------------------------------------

    def _account_live(self) -> None:
        now = self.clock.now
        self._live_time += self.live * (now - self._live_since)
        self._live_since = now

    def reset(self) -> None:
        """Forget what warm-up measured (R-B-091)."""
        self._account_live()
        self._live_time = 0.0
        self.ended = 0

    def live_time(self) -> float:
        """The integral of the number of live sessions since warm-up (R-B-114)."""
        self._account_live()
        return self._live_time
