"""An open run: sessions arrive one after the other, and now and then the engines come up to them.

Where sessions take the place of those that end, they arrive while the engines run: these then go from step
end to step end together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf, nextafter
from operator import itemgetter

from serq.runtime.clock import Clock
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.gateway import OpenGateway
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.notes import Done
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.open_run.together import Together
from serq.runtime.trace import Trace
from serq.runtime.trace.replay import TracedSession
from serq.runtime.workload import Workload

Arrive = Callable[[int, float, Trace | None, int, int], OpenRequest | None]
"""What a session does from its arrival on: its number, the instant, and the rows of a trace that it replays.

It returns the request that it sent; None: it ended without one.
"""

_ORDER = itemgetter(0, 1, 2)
_ARRIVALS_BETWEEN = 256
"""After so many arrivals all engines come up to the instant, and who has ended goes on."""


class OpenRun:
    """The loop of an open run. What it leaves to others: building, and the rest of the records."""

    def __init__(
        self,
        clock: Clock,
        workload: Workload,
        arrive: Arrive,
        gateway: OpenGateway,
        engines: Sequence[OpenEngine],
        warmup: float,
        closed: bool,
    ) -> None:
        """``closed``: whenever a session ends, the next arrives."""
        self._clock = clock
        self._workload = workload
        self._arrive = arrive
        self._gateway = gateway
        self._engines = engines
        self._warmup = warmup
        self.live = self.ended = 0
        self.live_time = 0.0
        self.live_since = self._last_end = 0.0
        self._closed = closed
        self._countdown = _ARRIVALS_BETWEEN
        self._on_pause: Callable[[], None] = _nothing
        if closed:
            self._together = Together(engines, self._replace)
        self._arrived: deque[tuple[float, bool]] = deque()
        """When sessions arrived that are not counted yet, and whether they did not end at once."""

    def run(self, horizon: float, on_warmup: Callable[[], None], on_pause: Callable[[], None]) -> float:
        """Let time pass until ``horizon``; the instant of the last event.

        ``on_warmup`` is called when warm-up is over, ``on_pause`` now and then.
        """
        workload, arrived = self._workload, self._arrived
        self._on_pause = on_pause
        warmup = self._warmup if self._warmup > 0.0 else inf
        border = min(warmup, nextafter(horizon, inf))
        last = 0.0
        for time, replayed in workload.schedule():
            if time >= border:
                if time >= warmup:
                    self._end_warmup(warmup, on_warmup)
                    warmup, border = inf, nextafter(horizon, inf)
                if time > horizon:
                    break
            self._countdown -= 1
            if self._countdown == 0:
                self.come_up_to(time)
                self._pause()
            last = time
            request = self._newcomer(time, replayed)
            if self._closed:
                self._check_stays(request)
            if request is not None and request.reason:
                self._go_on_rejected(request, time)
                request = None
            arrived.append((time, request is not None))
            if request is None:
                self.ended += 1
        if warmup <= horizon:
            self._end_warmup(warmup, on_warmup)
        self.come_up_to(nextafter(horizon, inf))
        last = max(last, self._last_end)
        self._account((max(last, self.live_since),), 0)
        return last

    def _newcomer(self, time: float, replayed: TracedSession | None) -> OpenRequest | None:
        """A session arrives: the request that it sends, if any."""
        workload = self._workload
        self._clock.now = time
        number = workload.arrivals
        workload.arrivals = number + 1
        trace, row, rows_end = replayed or workload.rows_of(number)
        return self._arrive(number, time, trace, row, rows_end)

    def _pause(self) -> None:
        """What is over is written down."""
        self._countdown = _ARRIVALS_BETWEEN
        self._gateway.write_ended()
        for engine in self._engines:
            engine.write_ended()
        self._on_pause()

    def _end_warmup(self, warmup: float, on_warmup: Callable[[], None]) -> None:
        """Statistics begin: before everything else at that instant (R-B-091)."""
        self.come_up_to(warmup)
        self._clock.now = warmup
        self._account((warmup,), 0)
        for engine in self._engines:
            engine.write_ended()
        on_warmup()
        for engine in self._engines:
            engine.reset(warmup)
        self.live_time = 0.0
        self.ended = 0

    def _go_on_rejected(self, request: OpenRequest, now: float) -> None:
        """A session whose request was turned away goes on at once: after those who have ended before."""
        self.come_up_to(now)
        if any(engine.ends_at(now) for engine in self._engines):
            raise LeaveOpenRun(ClockReason.TIE)
        self._clock.now = now
        request.over(now, request)

    def come_up_to(self, time: float) -> None:
        """Let all happen that comes before ``time``; then who has ended goes on, in that order (R-B-002)."""
        engines = self._engines
        if self._closed:
            self._together.run(time)
            return
        for engine in engines:
            engine.run(time)
        if len(engines) == 1:
            done, engines[0].done = engines[0].done, []
        else:
            done = sorted((entry for engine in engines for entry in engine.done), key=_ORDER)
            for engine in engines:
                engine.done = []
        self._go_on(done)

    def _go_on(self, done: Sequence[Done]) -> None:
        """Sessions whose requests have ended go on, one after the other."""
        clock = self._clock
        try:
            for now, _, _, request in done:
                clock.now = now
                request.over(now, request)
        except KeyboardInterrupt:
            self._count_ended([entry for entry in done if entry[0] <= clock.now])
            raise
        self._count_ended(done)

    def _count_ended(self, done: Sequence[Done]) -> None:
        """Sessions have ended, one after the other."""
        self._account([entry[0] for entry in done], 1)
        self.ended += len(done)
        if done:
            self._last_end = done[-1][0]

    def _account(self, instants: Sequence[float], leaving: int) -> None:
        """Add the time up to ``instants`` to the integral of live sessions, one who came after the other.

        At each of them that many are ``leaving``.
        """
        since, live, total, arrived = self.live_since, self.live, self.live_time, self._arrived
        for now in instants:
            while arrived and arrived[0][0] <= now:
                time, stays = arrived.popleft()
                total += live * (time - since)
                since = time
                live += stays
            total += live * (now - since)
            since = now
            live -= leaving
        self.live_since, self.live, self.live_time = since, live, total

    # --- others take the place of those that end ----------------------------------------------------------

    def _replace(self, now: float, done: list[Done]) -> None:
        """Requests have ended: their sessions do, and others arrive (R-B-070)."""
        self._go_on(done)
        for _ in done:
            request = self._check_stays(self._newcomer(now, None))
            self._arrived.append((now, True))
            self._together.sent_to(request.engine, now)
        self._countdown -= len(done)
        if self._countdown <= 0:
            self._pause()

    @staticmethod
    def _check_stays(request: OpenRequest | None) -> OpenRequest:
        """A session that arrives does not end at once: another would have to take its place."""
        if request is None or request.reason:
            raise LeaveOpenRun(ClockReason.CLOSED)
        return request


def _nothing() -> None:
    pass
