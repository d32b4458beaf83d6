"""Sessions that live on the clock, while the engines that serve them run ahead of it.

A session may send any number of requests, one after the other, and let time pass in between. What it does is
its own code (a generator), its events are on the clock; between two of them engines go from step end to step
end, up to the first with which a request of somebody ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, nextafter

from serq.runtime.clock import Clock
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.gateway import OpenGateway
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun
from serq.runtime.open_run.notes import Done
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.open_run.stage import OpenStage
from serq.runtime.open_run.together import Together
from serq.runtime.serving.gateway import RequestTerms
from serq.runtime.session import Session
from serq.runtime.workload import Workload
from serq.runtime.world import World

_ENDS_BETWEEN = 256
"""After so many requests what is over is written down."""


class SessionRun:
    """The loop of such a run."""

    def __init__(
        self,
        clock: Clock,
        world: World,
        workload: Workload,
        gateway: OpenGateway,
        engines: Sequence[OpenEngine],
    ) -> None:
        self._clock = clock
        self._world = world
        self._workload = workload
        self._gateway = gateway
        self._engines = engines
        self._together = Together(engines, self._go_on)
        self._happened = -inf
        """When something on the clock happened last."""
        self._countdown = _ENDS_BETWEEN
        self._on_pause: Callable[[], None] = lambda: None

    def run(
        self,
        horizon: float,
        over: Callable[[], bool],
        on_pause: Callable[[], None],
    ) -> None:
        """Let everything happen that is not later than ``horizon``, or until the run is ``over``.

        ``on_pause`` is called now and then. Raises LeaveOpenRun where somebody takes note at the instant at
        which a request ends, since its order among events is known on the clock only.
        """
        clock, world, together = self._clock, self._world, self._together
        limit = nextafter(horizon, inf)
        self._on_pause = on_pause
        self._workload.begin()
        world.settle()
        while not over():
            together.run(min(clock.next_time(), limit))
            if over():
                return
            if clock.next_time() >= limit:
                return
            self._happened = clock.next_time()
            world.advance(horizon)

    def end_warmup(self, warmup: float, on_warmup: Callable[[], None]) -> None:
        """Statistics begin: before everything else at that instant (R-B-091)."""
        for engine in self._engines:
            engine.write_ended()
        on_warmup()
        for engine in self._engines:
            engine.reset(warmup)

    # --- requests -----------------------------------------------------------------------------------------

    def send(self, session: Session, stage: OpenStage, terms: RequestTerms) -> None:
        """Send a request of ``session``, which waits until it has ended: unless it is rejected at once."""
        follows = None if terms.follows is None else session.requests.get(terms.follows)
        engine = stage.engine
        request = self._gateway.send_of(session, engine, terms, follows)  # type: ignore[arg-type]
        session.requests[terms.handle] = request  # type: ignore[assignment]
        if request.reason:
            self._world.wake(session)
        else:
            self._together.sent_to(engine.number, request.sent_time)

    @staticmethod
    def read(session: Session, handle: str) -> OpenRequest:
        """The latest request that ``session`` sent under ``handle``."""
        request = session.requests.get(handle)
        if request is None:
            raise LeaveOpenRun(ClockReason.ERROR)
        return request  # type: ignore[return-value]

    def _go_on(self, now: float, done: list[Done]) -> None:
        """Requests have ended: their sessions go on."""
        clock, world = self._clock, self._world
        if now == self._happened:
            raise LeaveOpenRun(ClockReason.TIE)
        clock.go_to(now)
        for _, _, _, request in done:
            world.wake(request.kept)
        world.settle()
        following = clock.next_time()
        if following <= now:
            raise LeaveOpenRun(ClockReason.TIE)
        self._together.stop_at(following)
        self._countdown -= len(done)
        if self._countdown <= 0:
            self._countdown = _ENDS_BETWEEN
            self._gateway.write_ended()
            for engine in self._engines:
                engine.write_ended()
            self._on_pause()
