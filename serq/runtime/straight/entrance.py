"""Where sessions wait for a slot and memory, and get them: the hold of a straight program."""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import TYPE_CHECKING

from serq.runtime.faults import StatementError
from serq.runtime.pool import SLACK

if TYPE_CHECKING:
    from serq.runtime.hold import HoldPlan
    from serq.runtime.pool import Pool
    from serq.runtime.session import Session
    from serq.runtime.straight.resident import Resident, Taken


class Entrance:
    """The slots and the memory of one engine, and who waits for them."""

    def __init__(self, slots: Pool, memory: Pool, plan: HoldPlan) -> None:
        self.slots = slots
        self.memory = memory
        self.plan = plan
        self.waiting: deque[tuple[Session, float]] = deque()
        """Who waits to be admitted, since when."""
        self.caches = plan.keep is not None or plan.reuse is not None
        """Whether prefixes stay in the pools, and give way to who takes units."""
        self.block = 1.0 if memory.block is None else memory.block
        self.room = memory.capacity + SLACK
        """Up to here units of the memory can be taken (R-A-051)."""
        self._slots_room = slots.capacity + SLACK
        self._amounts = plan.amounts

    def join(self, session: Session, now: float, *, preempted: bool = False) -> bool:
        """Wait, in front of everybody if ``preempted``; False if that is hopeless (R-A-054, R-A-076)."""
        required = self._needs(session)[1]
        for pool, wanted in ((self.slots, 1.0), (self.memory, required)):
            if wanted > pool.capacity:
                pool.figures.rejected += 1
                return False
        self.account_slots(now)
        if preempted:
            self.waiting.appendleft((session, now))
        else:
            self.waiting.append((session, now))
        return True

    def _needs(self, session: Session) -> tuple[float, float]:
        """The units of the memory that ``session`` takes, and the room it requires, in whole blocks."""
        _, _, units, reserve = self._amounts(session)
        if not (units >= 0.0 and reserve >= 0.0):
            what = f"units {units:.10g}" if not units >= 0.0 else f"reserve {reserve:.10g}"
            message = f"`hold {self.memory.name}`: {what}: an amount is a number, and not negative"
            raise StatementError(message, session, self.plan.statement, "negative-amount")
        block = self.block
        taken = ceil(units / block) * block
        if not reserve:
            return taken, taken
        required = ceil(reserve / block) * block
        return taken, required if required > taken else taken

    def admit(self, now: float) -> tuple[Session, Taken] | None:
        """Admit who has waited longest, if there is room; returns it, and what it got."""
        slots, memory = self.slots, self.memory
        session, joined = self.waiting[0]
        units, required = self._needs(session)
        if slots.used + 1.0 > self._slots_room or memory.used + required > self.room:
            return None
        self.account_slots(now)
        self.waiting.popleft()
        figures = slots.figures
        figures.wait += now - joined
        figures.waits += 1
        figures.admissions += 1
        memory.figures.admissions += 1
        slot_prefix, prefix = self._reuse(session, now) if self.caches else (0.0, 0.0)
        slots.used += 1.0
        slots.holder_count += 1
        self.take(units, now)
        memory.holder_count += 1
        session.a_cached = slot_prefix if slot_prefix > prefix else prefix
        return session, (units, prefix, slot_prefix)

    # --- prefixes ---------------------------------------------------------------------------------------

    def _reuse(self, session: Session, now: float) -> tuple[float, float]:
        """Take the prefixes of ``session`` out of the caches of slots and memory (R-A-082)."""
        reuse = self.plan.reuse
        limit = None if reuse is None else reuse(session)
        slots, memory = self.slots, self.memory
        slot_prefix = slots.cache.consume(session, limit)
        if slots.cache.total > 0.0:
            slots.make_room(1.0, now)
        memory.account(now)
        return slot_prefix, memory.cache.consume(session, limit)

    def keep(self, resident: Resident, now: float, *, preempted: bool = False) -> None:
        """Leave what the `cache` clause says of what ``resident`` has given back (R-A-079 to R-A-081)."""
        session, keep = resident.session, self.plan.keep
        if keep is None:
            return
        there = resident.slot_prefix if resident.tracked else 1.0
        if preempted and resident.resumed and there > resident.slot_prefix:
            there = resident.slot_prefix
        self.slots.keep(session, min(keep(session), there), now)
        there = resident.position if resident.tracked else resident.units
        self.memory.keep(session, min(keep(session), there), now)

    # --- units ------------------------------------------------------------------------------------------

    def give_back(self, units: float, now: float) -> None:
        """A slot and ``units`` of the memory are free again."""
        slots, memory = self.slots, self.memory
        self.account_slots(now)
        slots.used -= 1.0
        slots.holder_count -= 1
        self.take(-units, now)
        memory.holder_count -= 1

    def take(self, units: float, now: float) -> None:
        """``units`` more of the memory are taken."""
        figures, memory = self.memory.figures, self.memory
        if self.caches:
            if units > 0.0 and memory.cache.total > 0.0:
                memory.make_room(units, now)
            memory.account(now)
            memory.used += units
            return
        if now != figures.since:
            elapsed = now - figures.since
            figures.used += memory.used * elapsed
            figures.holders += memory.holder_count * elapsed
            figures.since = now
        memory.used += units

    def account_slots(self, now: float) -> None:
        """Add the time since the last change to the integrals of the slots."""
        figures, slots = self.slots.figures, self.slots
        if now != figures.since:
            elapsed = now - figures.since
            figures.used += slots.used * elapsed
            figures.cached += slots.cache.total * elapsed
            figures.queue += len(self.waiting) * elapsed
            figures.holders += slots.holder_count * elapsed
            figures.since = now
