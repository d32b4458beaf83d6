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


class Entrance:
    """The slots and the memory of one engine, and who waits for them."""

    def __init__(self, slots: Pool, memory: Pool, plan: HoldPlan) -> None:
        self.slots = slots
        self.memory = memory
        self.plan = plan
        self.waiting: deque[tuple[Session, float]] = deque()
        """Who waits to be admitted, since when."""
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

    def admit(self, now: float) -> tuple[Session, float] | None:
        """Admit who has waited longest, if there is room. Returns it and its units of the memory."""
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
        slots.used += 1.0
        slots.holder_count += 1
        self.take(units, now)
        memory.figures.admissions += 1
        memory.holder_count += 1
        session.a_cached = 0.0
        return session, units

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
            figures.queue += len(self.waiting) * elapsed
            figures.holders += slots.holder_count * elapsed
            figures.since = now
