"""Who arrives, and what they bring: arrivals, `init` and `turn` blocks, traces (R-B-070 to R-B-083)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from math import inf, isfinite

from serq.errors import DataError, RunError
from serq.ir import nodes
from serq.runtime.clock import Clock
from serq.runtime.random import DrawStream, RandomSource
from serq.runtime.session import Session
from serq.runtime.trace import Trace, TraceSource
from serq.runtime.trace.replay import TracedSession, in_file_order, in_order_of_time
from serq.runtime.world import World

_GENERATIONS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class SessionCode:
    """The generated code of sessions, and what it draws."""

    session: type[Session]
    statements: Callable[[Session], object] | None
    """None: its parts are called one by one (:mod:`serq.runtime.straight`)."""
    init: Callable[[Session], None]
    turn: Callable[[Session], None]
    session_draws: bool
    workload_draws: bool


class Workload:
    """Brings sessions into the world. With ``limit``, exactly that many (R-B-092)."""

    def __init__(
        self,
        declaration: nodes.Workload,
        code: SessionCode,
        world: World,
        random: RandomSource,
        trace: TraceSource | None,
        gap: Callable[[DrawStream], float] | None,
        limit: int | None,
    ) -> None:
        self.arrivals = 0
        """Sessions that have arrived; the next serial number (R-B-073)."""
        self.turns = 0
        self._declaration = declaration
        self._code = code
        self._draws = code.session_draws or code.workload_draws
        self._world = world
        self._clock: Clock = world.clock
        self._random = random
        self._gaps = random.arrivals()
        self._trace = trace
        self._in_memory: Trace | None = None
        """The whole trace, where sessions of it are drawn."""
        self._in_order: Iterator[TracedSession] | None = None
        """Its sessions, where they are replayed in the order of the file."""
        self._gap = gap
        self._limit = inf if limit is None else limit
        self.exhausted = False
        """Whether `arrive trace` has brought all that it can."""
        if trace is not None:
            if not trace.sessions:
                raise DataError("the trace has no sessions")
            if declaration.ordered:
                self._in_order = in_file_order(trace)
            elif not isinstance(declaration.arrive, nodes.Traced):
                self._in_memory = trace.loaded()
        if trace is None and (declaration.ordered or declaration.trace is not None):
            raise DataError(f"the program replays the trace {declaration.trace!r}, and none was given")

    def complete(self) -> bool:
        """Whether all arrivals that were asked for have come."""
        return self.arrivals >= self._limit

    # --- arrivals ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Let the first sessions arrive, or plan the first arrival (R-B-070)."""
        match self._declaration.arrive:
            case nodes.Batch(count) | nodes.Closed(count):
                for _ in range(int(count)):
                    self._arrive()
                if isinstance(self._declaration.arrive, nodes.Closed):
                    self._world.on_session_end = self._replace
            case nodes.Poisson() | nodes.Renewal() | nodes.Traced():
                self._plan_arrival(self.schedule())

    def _arrive(self, generation: int = 0, replayed: TracedSession | None = None) -> None:
        """One session arrives: it gets its number, its part of the trace, and runs `init` (R-B-072)."""
        session = self.newcomer(replayed)
        session.generation = generation
        self._world.arrive(session)

    def newcomer(self, replayed: TracedSession | None) -> Session:
        """The session that arrives now (R-B-072)."""
        code = self._code
        number = self.arrivals
        self.arrivals += 1
        session = code.session(number)
        session.born = self._clock.now
        session.trace, session.row, session.rows_end = replayed or self.rows_of(number)
        if self._draws:
            self._assign_draws(session)
        if code.statements is not None:
            session.statements = code.statements(session)  # type: ignore[assignment]
        if self._declaration.init:
            code.init(session)
        return session

    def schedule(self) -> Iterator[tuple[float, TracedSession | None]]:
        """When sessions arrive, and what they replay, where that does not depend on what becomes of them.

        With `closed`, those that arrive first. With `arrive trace (k)` every trace session comes at its own
        time, the first at 0, k times as fast.
        """
        match self._declaration.arrive:
            case nodes.Batch(count) | nodes.Closed(count):
                yield from repeat((0.0, None), int(count))
            case nodes.Traced(speed):
                arrivals = in_order_of_time(self._timed_trace(), speed)
                yield from arrivals if self._limit == inf else islice(arrivals, int(self._limit))
                self.exhausted = True
            case nodes.Poisson() | nodes.Renewal() as arrive:
                time = 0.0
                if isinstance(arrive, nodes.Poisson):
                    yield time, None
                while not self.complete():
                    self._clock.now = time
                    time = self._next_time()
                    yield time, None

    def _replace(self, ended: Session) -> None:
        """`closed`: a new session at the instant one ends (R-B-070)."""
        generation = ended.generation + 1 if ended.born == self._clock.now else 0
        if generation > _GENERATIONS_AT_ONCE:
            raise RunError(
                f"{_GENERATIONS_AT_ONCE:,} sessions ended at the instant of their arrival: no time passes",
                session=ended.number,
                code="no-time-passes",
            )
        self._arrive(generation)

    def _plan_arrival(self, schedule: Iterator[tuple[float, TracedSession | None]]) -> None:
        """Put the next arrival on the clock, which will do the same for the one after it."""
        following = next(schedule, None)
        if following is None:
            return
        time, replayed = following

        def arrive() -> None:
            self._arrive(replayed=replayed)
            self._plan_arrival(schedule)

        self._clock.at(time, arrive).calm = self._world.calm_arrivals

    def _next_time(self) -> float:
        arrive = self._declaration.arrive
        now = self._clock.now
        if isinstance(arrive, nodes.Poisson):
            return now + self._gaps.exp(0, 1.0 / arrive.rate) if arrive.rate > 0.0 else inf
        assert self._gap is not None
        gap = self._gap(self._gaps)
        if not (gap > 0.0 and isfinite(gap)):
            raise RunError(
                f"the gap to the next arrival is {gap:.10g}: it must be positive", code="gap-not-positive"
            )
        return now + gap

    def _timed_trace(self) -> TraceSource:
        trace = self._trace
        if trace is None:
            raise DataError("`arrive trace` needs a trace: name one in the workload, or give --trace FILE")
        if not trace.timed:
            raise DataError(
                "`arrive trace` needs a trace with times: a session CSV has them in a column `time`"
            )
        return trace

    # --- what sessions bring ----------------------------------------------------------------------------

    def rows_of(self, number: int) -> tuple[Trace | None, int, int]:
        """Which rows of which trace session ``number`` replays, if any: from, up to (R-B-081, R-B-083)."""
        if self._in_order is not None:
            return next(self._in_order)
        trace = self._in_memory
        if trace is None:
            return None, 0, 0
        index = self._random.trace(number).index(0, trace.sessions)
        return trace, trace.first_row[index], trace.first_row[index + 1]

    def _assign_draws(self, session: Session) -> None:
        if self._code.session_draws:
            session.draws = self._random.session(session.number, session.turn)
        if self._code.workload_draws:
            session.workload_draws = self._random.workload(session.number, session.turn)

    def begin_turn(self, session: Session) -> None:
        """`turn;`: the next number, the next row of the trace, the `turn` block (R-A-090, R-B-081)."""
        session.turn += 1
        session.a_turn_no += 1.0
        self.turns += 1
        if self._draws:
            self._assign_draws(session)
        trace = session.trace
        if trace is not None:
            row = session.row
            if row < session.rows_end:
                session.a_new = trace.new[row]
                session.a_out = trace.out[row]
                session.a_think = trace.think[row]
                session.a_forced = trace.forced[row]
                session.row = row + 1
            session.a_more = 1.0 if session.row < session.rows_end else 0.0
        if self._declaration.turn:
            self._code.turn(session)
