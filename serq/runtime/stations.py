"""Stages where every job is on its own: `fifo`, `ps` and `delay` (R-B-010 to R-B-014)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from serq.runtime.clock import Action, Ticket
from serq.runtime.stage import Stage, Waker

if TYPE_CHECKING:
    from serq.runtime.session import Session


class Job:
    """Work of a session at a station; nobody's where a pool spills over it or KV moves."""

    __slots__ = ("done", "finish", "joined", "order", "session", "started", "ticket", "work")

    def __init__(
        self, session: Session | None, work: float, joined: float, order: int, done: Action | None
    ) -> None:
        self.session = session
        self.done = done
        self.work = work
        self.joined = joined
        self.order = order
        self.started = joined
        self.finish = 0.0
        self.ticket: Ticket | None = None

    def __lt__(self, other: Job) -> bool:
        return (self.finish, self.order) < (other.finish, other.order)


class Station(Stage):
    """The base of stations: which jobs are present."""

    def __init__(self, name: str, member: int, host: Waker) -> None:
        super().__init__(name, member, host)
        self.jobs: dict[Job, None] = {}
        self._of_session: dict[Session, Job] = {}
        self._started = 0

    def start(self, session: Session | None, work: float, done: Action | None = None) -> None:
        """A job of ``work`` > 0 joins; when it is done its session goes on, or ``done`` is called."""
        now = self._clock.now
        self.account(now)
        self._started += 1
        job = Job(session, work, now, self._started, done)
        self.number += 1
        self.jobs[job] = None
        if session is not None:
            self._of_session[session] = job
            session.blocked_on = self
        self._join(job)

    def withdraw(self, session: Session) -> None:
        """The job of ``session`` leaves undone: its session was preempted (R-A-076)."""
        job = self._of_session[session]
        self._remove(job)
        if job.ticket is not None:
            job.ticket.cancel()
        self._left(job)

    def _remove(self, job: Job) -> None:
        self.account(self._clock.now)
        self.number -= 1
        del self.jobs[job]
        if job.session is not None:
            del self._of_session[job.session]

    def _finish(self, job: Job) -> None:
        now = self._clock.now
        self._remove(job)
        self.complete(now, job.started, job.started - job.joined)
        self._left(job)
        if job.session is not None:
            self._host.wake(job.session)
        elif job.done is not None:
            job.done()

    def _join(self, job: Job) -> None:
        """``job`` is there now."""
        raise NotImplementedError

    def _left(self, job: Job) -> None:
        """``job`` is gone, done or not."""
        raise NotImplementedError


class DelayStation(Station):
    """`delay`: every job alone at rate 1 (R-B-012)."""

    def _join(self, job: Job) -> None:
        job.finish = self._clock.now + job.work
        job.ticket = self._clock.at(job.finish, lambda: self._finish(job))

    def _left(self, job: Job) -> None:
        pass

    def remaining_work(self) -> float:
        """`work`, in the order in which the jobs joined."""
        now = self._clock.now
        total = 0.0
        for job in self.jobs:
            total += max(0.0, job.work - (now - job.started))
        return total


class FifoStation(Station):
    """`fifo(c)`: c servers of rate 1, in the order of arrival (R-B-010)."""

    def __init__(self, name: str, member: int, host: Waker, servers: int) -> None:
        super().__init__(name, member, host)
        self._servers = servers
        self._serving: dict[Job, None] = {}
        self._waiting: deque[Job] = deque()

    def _join(self, job: Job) -> None:
        self._waiting.append(job)
        self._serve()

    def _left(self, job: Job) -> None:
        if job in self._serving:
            del self._serving[job]
        else:
            self._waiting.remove(job)
        self._serve()

    def _serve(self) -> None:
        now = self._clock.now
        while self._waiting and len(self._serving) < self._servers:
            job = self._waiting.popleft()
            self._serving[job] = None
            job.started = now
            job.finish = now + job.work
            job.ticket = self._clock.at(job.finish, self._finisher(job))

    def _finisher(self, job: Job) -> Callable[[], None]:
        return lambda: self._finish(job)

    def busy(self) -> float:
        """`busy`: jobs in service."""
        return float(len(self._serving))

    def remaining_work(self) -> float:
        """`work`: the rest of the jobs in service, and all of those that wait."""
        now = self._clock.now
        total = 0.0
        for job in self.jobs:
            total += max(0.0, job.work - (now - job.started)) if job in self._serving else job.work
        return total


class SharedStation(Station):
    """`ps(phi)`: all present jobs share the capacity equally (R-B-011).

    ``virtual`` is the service that a job present since time 0 would have had; a job is done when it has
    grown by the job's work. Capacity is evaluated when the population has changed, and only then: after
    the instant has settled, once for all changes.
    """

    def __init__(self, name: str, member: int, host: Waker, capacity: Callable[[float], float]) -> None:
        super().__init__(name, member, host)
        self._capacity = capacity
        self._virtual = 0.0
        self._rate = 0.0
        self._updated = 0.0
        self._order: list[Job] = []
        self._next: Ticket | None = None

    def _advance(self) -> None:
        now = self._clock.now
        if now != self._updated:
            self._virtual += self._rate * (now - self._updated)
            self._updated = now

    def _join(self, job: Job) -> None:
        self._advance()
        job.finish = self._virtual + job.work
        heappush(self._order, job)
        self._host.attend(self)

    def _left(self, job: Job) -> None:
        self._advance()
        if self._order[0] is job:
            heappop(self._order)
        else:
            self._order = sorted(other for other in self._order if other is not job)
        self._host.attend(self)

    def plan(self) -> None:
        """The population has changed: the next job to finish may be another, or at another time."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if not self.number:
            self._rate = 0.0
            return
        present = float(self.number)
        rate = self._capacity(present) / present
        self._rate = rate if rate > 0.0 else 0.0
        if self._rate > 0.0:
            job = self._order[0]
            left = job.finish - self._virtual
            end = self._clock.now + (left / self._rate if left > 0.0 else 0.0)
            self._next = self._clock.at(end, lambda: self._due(job))

    def _due(self, job: Job) -> None:
        self._advance()
        self._virtual = max(self._virtual, job.finish)
        self._next = None
        self._finish(job)

    def remaining_work(self) -> float:
        """`work`: what is left of all jobs."""
        virtual = self._virtual + self._rate * (self._clock.now - self._updated)
        total = 0.0
        for job in self.jobs:
            total += max(0.0, job.finish - virtual)
        return total
