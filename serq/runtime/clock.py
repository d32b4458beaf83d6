"""Time in the model: SimPy behind absolute times and an order of simultaneous events that can be computed.

This is the only file that imports SimPy, and it does so when a first event is due: a run ahead of the clock
has none, and SimPy brings along the reading of package metadata, which costs more than SimPy.

SimPy orders events of one instant by the order in which they were created; a run of iterations that is
planned ahead cannot know that order. So every event carries the key ``(time, scheduled_at, phase, rank,
counter)`` in the place where SimPy keeps its priority:

* ``scheduled_at`` is the instant at which the event was scheduled;
* ``phase`` counts the turns of that instant: even while sessions settle, odd while engines start;
* ``rank`` is 0 while sessions settle; while stage number i starts it is 2i, and 2i + 1 for its own step end.

This is the order of scheduling (R-B-002), and inside a planned run the key of step j is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf

Action = Callable[[], None]
EventKey = tuple[float, int, int]
"""(scheduled_at, phase, rank): orders the events of one instant."""


class Ticket:
    """A scheduled action, with what SimPy reads of an event.

    A cancelled one does nothing, and stays an event of its instant (R-B-008).
    One that was ``discarded`` never was: a planned run has been cut, and what it stood for comes otherwise.
    """

    _ok = True
    discarded = False
    calm = False
    """Whether what happens cuts by itself the plans that it changes (see :mod:`serq.runtime.unwatched`)."""

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action
        self.callbacks = _CALLBACKS

    def cancel(self) -> None:
        """Let nothing happen at that instant; harmless when it has happened."""
        self.action = None


def _fire(ticket: Ticket) -> None:
    if ticket.action is not None:
        ticket.action()


_CALLBACKS: list[Callable[[Ticket], None]] = [_fire]
"""What SimPy calls when a ticket is due."""


class Clock:
    """The agenda of a run. ``now`` starts at 0 and has no unit (R-B-001)."""

    __slots__ = ("_counter", "_queue", "_step", "before_others", "event_key", "now", "phase", "rank")

    def __init__(self) -> None:
        self._queue: list[tuple[float, EventKey, int, Ticket]] = []
        self._counter = count()
        self._step: Action = self._first_step
        """Lets SimPy take the first event of the queue."""
        self.now = 0.0
        self.phase = 0
        self.rank = 0
        self.event_key: EventKey = (0.0, 0, 0)
        """The key of the event that happens now, or happened last."""
        self.before_others: Action | None = None
        """Called at the instant of every event that is not calm, before it happens."""

    def at(self, time: float, action: Action, rank: int | None = None) -> Ticket:
        """Schedule ``action`` for ``time``, an absolute instant not before now; at infinity, never.

        SimPy itself schedules at ``now + delay``, and ``now + (time - now)`` is not always ``time``.
        """
        return self.at_key(time, action, (self.now, self.phase, self.rank if rank is None else rank))

    def at_key(self, time: float, action: Action, key: EventKey) -> Ticket:
        """The same with a key that was computed beforehand: that of a step end inside a planned run."""
        ticket = Ticket(action)
        if time < inf:
            heappush(self._queue, (time, key, next(self._counter), ticket))
        return ticket

    def next_time(self) -> float:
        """The instant of the next event; infinity when there is none."""
        queue = self._queue
        while queue and queue[0][3].discarded:
            heappop(queue)
        return queue[0][0] if queue else inf

    def advance(self, horizon: float) -> bool:
        """Let the next event happen, if there is one not later than ``horizon`` (R-B-001)."""
        queue = self._queue
        while queue and queue[0][3].discarded:
            heappop(queue)
        if not queue:
            return False
        time = queue[0][0]
        if time > horizon:
            return False
        if time > self.now:
            self.now = time
            self.phase = 0
        elif self.phase % 2:
            self.phase += 1
        self.event_key = queue[0][1]
        if self.before_others is not None and not queue[0][3].calm:
            self.before_others()
        self._step()
        return True

    def _first_step(self) -> None:
        import simpy  # here, not above: see the head of this file

        environment = simpy.Environment()
        environment._queue = self._queue  # type: ignore[assignment]
        self._step = environment.step
        self._step()

    def next_event(self) -> tuple[float, EventKey]:
        """When the next event comes, and its key; at infinity when there is none."""
        time = self.next_time()
        return (time, self._queue[0][1]) if time < inf else (inf, (inf, 0, 0))

    def go_to(self, time: float) -> None:
        """An event happens at ``time`` that was not on the agenda."""
        if time > self.now:
            self.now = time
            self.phase = 0
        elif self.phase % 2:
            self.phase += 1

    def begin_starts(self) -> None:
        """From here on, at this instant, stages react and engines start (R-B-005)."""
        self.phase += 1
