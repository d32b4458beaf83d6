"""Several engines that go from step end to step end together, because what happens at one concerns others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, nextafter

from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.giving_way import GivingWay
from serq.runtime.open_run.notes import Done


class Together:
    """``engines``, and who goes on when requests have ended with a step of one of them.

    That is called with the instant, and these requests, before the next step is formed.
    """

    def __init__(self, engines: Sequence[OpenEngine], go_on: Callable[[float, list[Done]], None]) -> None:
        self._engines = engines
        self._go_on = go_on
        self._until = 0.0
        self._acting: GivingWay | None = None
        """Whose step has ended, while others go on."""
        for engine in engines:
            engine.go_on = self._step_ended

    def run(self, until: float) -> None:
        """Let everything happen that comes before ``until``, one engine after the other at every instant."""
        engines = self._engines
        self._until = until
        if len(engines) == 1:
            engines[0].run(until)
            return
        while True:
            times = sorted((engine.next_time(), engine.number) for engine in engines)
            time, after = times[0][0], times[1][0]
            if time >= self._until:
                break
            if after > time:
                engines[times[0][1]].run(min(self._until, after))
            else:
                self._run_instant(time)
        for engine in engines:
            engine.run(self._until)  # they count who has come while a step is under way

    def stop_at(self, time: float) -> None:
        """Something else happens at ``time``."""
        self._until = min(self._until, time)
        if self._acting is not None:
            self._acting.until = min(self._acting.until, time)

    def sent_to(self, number: int, now: float) -> None:
        """A request was sent ``now`` to engine ``number``."""
        if self._acting is not None and self._acting.number != number:
            self._acting.until = now  # what the other does with it may come before what is next here

    def _run_instant(self, now: float) -> None:
        """Something happens ``now`` in several engines: none forms a step before all of it has (R-B-005)."""
        there = [engine for engine in self._engines if engine.next_time() == now]
        there.sort(key=_event_order)
        for engine in there:
            engine.until = nextafter(now, inf)
            engine.reach(now)
        for engine in there:
            engine.react(now)

    def _step_ended(self, engine: GivingWay, now: float) -> None:
        done, engine.done = engine.done, []
        self._acting = engine
        self._go_on(now, done)
        self._acting = None


def _event_order(engine: OpenEngine) -> tuple[float, int]:
    """The order of what happens in engines at one instant: since when it was awaited, then their own."""
    return engine.flight[0][2] if engine.flight else -inf, engine.stage.rank
