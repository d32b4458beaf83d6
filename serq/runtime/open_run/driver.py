"""An open run: sessions arrive one after the other, and before each the engines come up to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, nextafter
from operator import itemgetter

from serq.runtime.clock import Clock
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.gateway import OpenGateway
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.session import Session
from serq.runtime.workload import Workload

_ORDER = itemgetter(0, 1, 2)
_ARRIVALS_BETWEEN = 256
"""After so many arrivals all engines come up to the instant, and who has ended goes on."""


class OpenRun:
    """The loop of an open run. What it leaves to others: building, and the rest of the records."""

    def __init__(
        self,
        clock: Clock,
        workload: Workload,
        gateway: OpenGateway,
        engines: Sequence[OpenEngine],
        warmup: float,
    ) -> None:
        self._clock = clock
        self._workload = workload
        self._gateway = gateway
        self._engines = engines
        self._warmup = warmup
        self.live = self.ended = 0
        self.live_time = 0.0
        self.live_since = self._last_end = 0.0
        self._arrived: list[tuple[float, bool]] = []
        """When sessions arrived, and whether they did not end at once."""
        self._place = 0
        """From there on they are not counted yet among those that are live."""

    def run(self, horizon: float, on_warmup: Callable[[], None], on_pause: Callable[[], None]) -> float:
        """Let time pass until ``horizon``; the instant of the last event.

        ``on_warmup`` is called when warm-up is over, ``on_pause`` now and then.
        """
        clock, workload, gateway = self._clock, self._workload, self._gateway
        warmup = self._warmup if self._warmup > 0.0 else inf
        countdown, last = _ARRIVALS_BETWEEN, 0.0
        for time, replayed in workload.schedule():
            if time >= warmup:
                self._end_warmup(warmup, on_warmup)
                warmup = inf
            if time > horizon:
                break
            countdown -= 1
            if countdown == 0:
                countdown = _ARRIVALS_BETWEEN
                self.come_up_to(time)
                gateway.write_ended()
                for engine in self._engines:
                    engine.write_ended()
                on_pause()
            clock.now = last = time
            session = workload.newcomer(replayed)
            over = next(session.statements, True)
            while gateway.rejected and not over:
                gateway.rejected = False
                over = self._go_on_rejected(session, time)
            self._arrived.append((time, not over))
            self.ended += bool(over)
        if warmup <= horizon:
            self._end_warmup(warmup, on_warmup)
        self.come_up_to(nextafter(horizon, inf))
        last = max(last, self._last_end)
        self.account(max(last, self.live_since))
        return last

    def _end_warmup(self, warmup: float, on_warmup: Callable[[], None]) -> None:
        """Statistics begin: before everything else at that instant (R-B-091)."""
        self.come_up_to(warmup)
        self._clock.now = warmup
        self.account(warmup)
        for engine in self._engines:
            engine.write_ended()
        on_warmup()
        for engine in self._engines:
            engine.reset(warmup)
        self.live_time = 0.0
        self.ended = 0

    def _go_on_rejected(self, session: Session, now: float) -> bool | None:
        """A session whose request was turned away goes on at once: after those who have ended before."""
        self.come_up_to(now)
        if any(engine.ends_at(now) for engine in self._engines):
            raise LeaveOpenRun(ClockReason.TIE)
        self._clock.now = now
        return next(session.statements, True)

    def come_up_to(self, time: float) -> None:
        """Let all happen that comes before ``time``; then who has ended goes on, in that order (R-B-002)."""
        engines = self._engines
        for engine in engines:
            engine.run(time)
        if len(engines) == 1:
            done, engines[0].done = engines[0].done, []
        else:
            done = sorted((entry for engine in engines for entry in engine.done), key=_ORDER)
            for engine in engines:
                engine.done = []
        clock = self._clock
        for now, _, _, request in done:
            clock.now = now
            session = request.session
            if not next(session.statements, True):
                raise LeaveOpenRun(ClockReason.STATEMENTS)
            session.requests.clear()
            self.account(now)
            self.live -= 1
            self.ended += 1
        if done:
            self._last_end = done[-1][0]

    def account(self, now: float) -> None:
        """Add the time up to ``now`` to the integral of live sessions, one who came after the other."""
        since, live, total = self.live_since, self.live, self.live_time
        arrived, place = self._arrived, self._place
        while place < len(arrived) and arrived[place][0] <= now:
            time, stays = arrived[place]
            total += live * (time - since)
            since = time
            live += stays
            place += 1
        if place > _ARRIVALS_BETWEEN:
            del arrived[:place]
            place = 0
        self._place = place
        self.live_time = total + live * (now - since)
        self.live_since, self.live = now, live
