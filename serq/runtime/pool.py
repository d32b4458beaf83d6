"""A counted resource: its units, its waiting line, its growers, its prefix cache, and its figures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, nan
from typing import TYPE_CHECKING

from serq.runtime.cache import Entry, PrefixCache
from serq.runtime.hold import Allocation, Grower, innermost
from serq.runtime.hold_queue import HoldQueue
from serq.runtime.records import PoolRow
from serq.runtime.session import Session

if TYPE_CHECKING:
    from serq.runtime.planned_run import PlanningStage
    from serq.runtime.random import DrawStream
    from serq.runtime.stage import Stage
    from serq.runtime.step_scheduler import StepScheduler

SLACK = 1e-9
"""Absolute tolerance of every test whether units fit (R-A-051)."""

EntryFunction = Callable[[Entry, float, "DrawStream | None"], float]


@dataclass(slots=True)
class SpillPlan:
    """Where evicted pieces go, over which link, and which of them (R-A-089)."""

    tier: Pool
    send: Callable[[float], None]
    """Start a job of that much work on the link; nobody waits for it."""
    work: EntryFunction
    condition: EntryFunction


@dataclass(slots=True)
class PoolFigures:
    """Integrals over time and counters of a pool (R-B-091, R-B-113)."""

    since: float = 0.0
    used: float = 0.0
    cached: float = 0.0
    queue: float = 0.0
    holders: float = 0.0
    wait: float = 0.0
    waits: int = 0
    admissions: int = 0
    evicted_entries: int = 0
    evicted_units: float = 0.0
    preemptions: int = 0
    spills: int = 0
    rejected: int = 0
    stuck: int = 0


class Pool:
    """One member of a pool. Every change of its state is preceded by :meth:`account`."""

    def __init__(
        self,
        name: str,
        member: int,
        capacity: float,
        block: float | None,
        *,
        lifo: bool,
        queue: HoldQueue,
        evict_key: Callable[[Entry, float, DrawStream | None], tuple[int, ...]] | None,
        draws: DrawStream | None,
        reads_attributes: bool,
    ) -> None:
        self.name = name
        self.member = member
        self.capacity = capacity
        self.block = block
        self.lifo = lifo
        self.queue = queue
        self.growers: deque[Grower] = deque()
        self.used = 0.0
        self.holders: dict[Session, int] = {}
        """Holder records by session, the one admitted last at the end: one for every allocation (R-A-030)."""
        self.holder_count = 0
        self.cache = PrefixCache(block, reads_attributes)
        self.spill: SpillPlan | None = None
        self.number = 0
        """Its place among all pools."""
        self.admitted_by_engine = False
        """Whether engines serve the queue (`admit via`), and pumps leave it alone (R-A-067)."""
        self.engines: list[Stage] = []
        """The engines that serve it."""
        self.memory_of: list[StepScheduler] = []
        """The engines that name it as `memory` (R-B-039)."""
        self.planner: PlanningStage | None = None
        """The engine that planned growth here last."""
        self.figures = PoolFigures()
        self._evict_key = evict_key
        self._draws = draws
        self._making_room = False

    def __repr__(self) -> str:
        return f"{self.name}[{self.member}]"

    # --- units ------------------------------------------------------------------------------------------

    def free(self) -> float:
        """Capacity that is not allocated; cached units do not reduce it (R-A-030)."""
        return self.capacity - self.used

    def round_up(self, units: float) -> float:
        """``units`` in whole blocks, in plain floating point without tolerance (R-A-057)."""
        block = self.block
        if block is None or not isfinite(units):
            return units
        blocks = units / block
        return ceil(blocks) * block if isfinite(blocks) else blocks

    def fits(self, units: float) -> bool:
        """Whether ``units`` more could be allocated; cached units never prevent it (R-A-051)."""
        return self.used + units <= self.capacity + SLACK

    def take(self, units: float, now: float) -> None:
        """Allocate ``units``, evicting what stands in the way (R-A-084)."""
        if self.cache.total > 0.0:
            self.make_room(units, now)
        self.account(now)
        self.used += units

    def fits_together(self, count: int, units: float) -> bool:
        """Whether ``units`` can be taken ``count`` times."""
        used = self.used
        for _ in range(count - 1):
            used += units
        return used + units <= self.capacity + SLACK

    def has_room(self, count: int, units: float) -> bool:
        """Whether ``units`` can be taken ``count`` times without an eviction."""
        used = self.used
        if not used.is_integer():
            for _ in range(count - 1):
                used += units
        else:  # whole numbers: their sum is exact in any order
            used += (count - 1) * units
        cached = self.cache.total
        return used + units <= self.capacity + SLACK and not (
            cached > 0.0 and cached > self.capacity - used - units + SLACK
        )

    def take_together(self, count: int, units: float, now: float) -> None:
        """Take ``units`` ``count`` times at one instant, where there is room."""
        self.account(now)
        if self.used.is_integer():
            self.used += count * units
        else:
            for _ in range(count):
                self.used += units

    def take_over(self, counts: Sequence[int], units: float, instants: Sequence[float]) -> None:
        """Take ``units`` so many times at each of ``instants``, where there is room."""
        if not self.used.is_integer():
            for count, now in zip(counts, instants, strict=True):
                if count:
                    self.take_together(count, units, now)
            return
        figures, used, since = self.figures, self.used, self.figures.since
        cached, queue, holders = self.cache.total, len(self.queue), self.holder_count
        for count, now in zip(counts, instants, strict=True):
            if count:
                elapsed = now - since
                figures.used += used * elapsed
                figures.cached += cached * elapsed
                figures.queue += queue * elapsed
                figures.holders += holders * elapsed
                since = now
                used += count * units
        self.used, figures.since = used, since

    def admit(self, session: Session, units: float, limit: float | None, now: float) -> float:
        """Take ``units`` for one more allocation of ``session``, and its prefix out of the cache.

        Returns the units of the prefix, at most ``limit`` in whole blocks (R-A-082, R-A-083).
        """
        self.account(now)
        prefix = self.cache.consume(session, limit) if self.cache.entries else 0.0
        self.take(units, now)
        self.holders[session] = self.holders.pop(session, 0) + 1
        self.holder_count += 1
        self.figures.admissions += 1
        return prefix

    def give_back(self, allocation: Allocation, now: float) -> None:
        """Return ``allocation``.

        All holder records of the session go with it, those of its other allocations here too (R-A-030).
        """
        session = allocation.hold.session
        self.account(now)
        allocation.returned = True
        self.used -= allocation.units
        self.holder_count -= self.holders.pop(session, 0)
        if not isfinite(allocation.units):
            self.used = self._counted()

    def _counted(self) -> float:
        """The units that holders have, added up anew: infinity minus infinity is not a number."""
        total = 0.0
        for session in self.holders:
            leased = [lease.allocation for lease in session.leases]
            for allocation in (*leased, *(a for hold in session.holds for a in hold.allocations)):
                if allocation.pool is self and not allocation.returned:
                    total += allocation.units
        return total

    def keep(self, session: Session, units: float, now: float) -> None:
        """``session`` gave something back here, and whole blocks of ``units`` of it stay cached (R-A-080)."""
        kept = self.cache.whole_blocks(units)
        if kept > 0.0:
            self.cache.store(session, kept, now)
        self.cache.remember(session)

    def drop(self, session: Session, now: float) -> None:
        """Remove the live entry of ``session`` (R-A-087)."""
        self.account(now)
        self.cache.drop(session)

    # --- eviction ---------------------------------------------------------------------------------------

    def make_room(self, units: float, now: float) -> None:
        """Evict until ``units`` more fit beside what is allocated and cached."""
        limit = self.capacity - self.used - units
        cache = self.cache
        self._making_room = True
        while cache.total > limit + SLACK and cache.entries:
            self._evict(self._next_victim(), now)
        self._making_room = False

    def _next_victim(self) -> Entry:
        """The entry with the smallest key; keys are read again for every block (R-A-084)."""
        key = self._evict_key
        if key is None:
            return self.cache.oldest()
        return min(self.cache.all(), key=lambda entry: key(entry, entry.units, self._draws))

    def _evict(self, entry: Entry, now: float) -> None:
        """Take one piece off ``entry``: a block from its tail, or all of it."""
        units = entry.units if self.block is None else min(self.block, entry.units)
        self.account(now)
        figures = self.figures
        figures.evicted_units += units
        if self.spill is not None:
            self._spill(self.spill, entry, units, now)
        self.cache.shrink(entry, units)
        if not entry.units > 0.0:
            figures.evicted_entries += 1

    def _spill(self, spill: SpillPlan, entry: Entry, units: float, now: float) -> None:
        """Move a piece to the tier if its condition holds and it can be put there (R-A-089)."""
        if not spill.condition(entry, units, self._draws):
            return
        work = spill.work(entry, units, self._draws)
        self.figures.spills += 1
        spill.tier.receive(entry, units, now)
        spill.send(work)

    def receive(self, entry: Entry, units: float, now: float) -> None:
        """Add a spilled piece of ``entry`` to the live entry of its session here, evicting others for it.

        A piece of what its session no longer finds stays dead here.
        A piece that no eviction can make room for is lost; so is one that would come back to a pool that
        is itself evicting.
        """
        if self._making_room or not self.fits(units):
            return
        self.make_room(units, now)
        self.account(now)
        session = entry.session
        if entry.live:
            self.cache.store(session, units + self.cache.amount_of(session), now)
        else:
            self.cache.bury(entry, units, now)
        self.cache.remember(session)

    # --- preemption -------------------------------------------------------------------------------------

    def last_admitted(self) -> Session | None:
        """The holder that is preempted next: the one admitted last (R-A-075, R-B-046).

        Where the pool is the memory of engines, only their residents can be it; leases never are.
        """
        if not self.memory_of:
            for session in reversed(self.holders):
                if innermost(session, self) is not None:
                    return session
            return None
        last: Session | None = None
        for scheduler in self.memory_of:
            for run in reversed(scheduler.residents):
                session = run.session
                if session in self.holders and innermost(session, self) is not None:
                    if last is None or session.admission > last.admission:
                        last = session
                    break
        return last

    # --- figures ----------------------------------------------------------------------------------------

    def account(self, now: float) -> None:
        """Add the time since the last change to the integrals."""
        figures = self.figures
        if now != figures.since:
            elapsed = now - figures.since
            figures.used += self.used * elapsed
            figures.cached += self.cache.total * elapsed
            figures.queue += len(self.queue) * elapsed
            figures.holders += self.holder_count * elapsed
            figures.since = now

    def reset(self, now: float) -> None:
        """Forget what warm-up measured; counters stay (R-B-091)."""
        self.account(now)
        figures = self.figures
        figures.used = figures.cached = figures.queue = figures.holders = figures.wait = 0.0
        figures.waits = 0

    def row(self, span: float) -> PoolRow:
        """The figures over the last ``span`` of time (R-B-113)."""
        figures = self.figures
        return PoolRow(
            name=self.name,
            member=self.member,
            mean_used=figures.used / span,
            mean_cached=figures.cached / span,
            mean_queue=figures.queue / span,
            mean_holders=figures.holders / span,
            mean_wait=figures.wait / figures.waits if figures.waits else nan,
            admissions=figures.admissions,
            evicted_entries=figures.evicted_entries,
            evicted_units=figures.evicted_units,
            preemptions=figures.preemptions,
            spills=figures.spills,
            rejected=figures.rejected,
            stuck=figures.stuck,
        )
