"""One engine of a straight program: who is served in an iteration, who is admitted, who is preempted.

It decides what :class:`serq.runtime.step_scheduler.StepScheduler` decides: all decodes, then prefills in the
order of admission, then who waits.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Protocol

from serq.runtime.straight.entrance import Entrance
from serq.runtime.straight.iterations import Iterations
from serq.runtime.straight.resident import Resident, by_admission

if TYPE_CHECKING:
    from serq.runtime.clock import Clock
    from serq.runtime.engine import Engine
    from serq.runtime.session import Session


class Host(Protocol):
    """What runs the sessions of engines."""

    def admit(self, resident: Resident, now: float) -> None:
        """A hold was admitted: its session goes on until it blocks or ends."""

    def end(self, session: Session) -> None:
        """The session is over; it holds nothing."""


class StraightEngine(Iterations):
    """Residents, and the decisions about them."""

    def __init__(
        self, stage: Engine, entrance: Entrance, clock: Clock, host: Host, budget: float
    ) -> None:
        super().__init__(stage, entrance, clock)
        self._host = host
        self._budget = budget
        self._shown_left = budget
        self._forming = False
        self._admissions = 0
        self._preemptions = 0

    # --- runs -------------------------------------------------------------------------------------------

    def enter(self, resident: Resident, tokens: float, now: float) -> None:
        """A run of ``tokens`` begins."""
        resident.joined = now
        resident.remaining = tokens
        stage = self.stage
        stage.account(now)
        stage.number += 1
        (self.arrived if resident.decoding else self.prefilling).append(resident)

    def leave(self, resident: Resident, now: float) -> None:
        """The hold ends: slot and memory go back."""
        entrance, session = self.entrance, resident.session
        entrance.give_back(resident.units, now)
        if entrance.caches:
            entrance.keep(resident, now)
        session.a_computed = 0.0
        if session.preempted_at:
            session.preempted_at.clear()

    # --- forming ----------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Form an iteration, if there is anything to do (R-B-020 to R-B-050)."""
        preemptions = self._preemptions
        members = self.members
        self.grouped = 0
        self.served.clear()
        self._forming = True
        if self.arrived:
            members.join(self.arrived)
            self.arrived.clear()
        left = self._budget
        if members.all:
            self._grow_members(now)
            grouped = self.grouped = len(members.all)
            left -= grouped
        if self.prefilling:
            left = self._serve_prefills(left, now)
        if self.entrance.waiting and left > 0.0 and self._preemptions == preemptions:
            self._admit(left, now)
        self._forming = False
        preempted = self._preemptions != preemptions
        if self.served or self.prefilling or preempted:
            if self.grouped or self.served or preempted:
                self.launch(now, alone=False)
        elif self.grouped:
            self.launch(now, alone=True)

    def _grow_members(self, now: float) -> None:
        """Every member that has no place for its next token takes a block."""
        members, entrance = self.members, self.entrance
        growing = members.growing()
        if growing or members.growth.later:
            more = growing * members.block
            if entrance.memory.used + more > entrance.room:
                self._grow_in_turn(now)
            elif growing:
                entrance.take(more, now)
            members.grow()
        else:
            members.grown += 1

    def _grow_in_turn(self, now: float) -> None:
        """One member grows after the other, and those admitted last give way."""
        members, left = self.members, self._budget
        for member in sorted(members.all, key=by_admission):
            if member not in members.all:
                continue
            if members.grows_next(member):
                self._shown_left = left
                if not self._make_room(member, members.block, now):
                    continue
                self.entrance.take(members.block, now)
            left -= 1.0

    def _serve_prefills(self, left: float, now: float) -> float:
        for resident in self.prefilling.copy():
            if not left > 0.0:
                break
            if resident in self.prefilling:
                left = self._serve(resident, left, now)
        return left

    def _serve(self, resident: Resident, left: float, now: float) -> float:
        """Give ``resident`` tokens of the budget that is ``left``, and return what is left then."""
        tokens = 1.0 if resident.decoding else resident.remaining
        if tokens > left:  # noqa: PLR1730 - `min` would be slower
            tokens = left
        target = resident.position + tokens
        if target > resident.units:
            block = self.members.block
            more = ceil(target / block) * block - resident.units
            self._shown_left = left
            if not self._make_room(resident, more, now):
                return left
            self.entrance.take(more, now)
            resident.units += more
        resident.given = tokens
        self.served.append(resident)
        return left - tokens

    def _admit(self, left: float, now: float) -> None:
        """Admit while budget is left (R-B-040); who does not fit ends it, and so does a preemption."""
        entrance, preemptions = self.entrance, self._preemptions
        while entrance.waiting and left > 0.0 and self._preemptions == preemptions:
            self._shown_left = left
            admitted = entrance.admit(now)
            if admitted is None:
                return
            self._admissions += 1
            resident = Resident(admitted[0], self, self._admissions, admitted[1])
            self._host.admit(resident, now)
            newcomers = self.arrived if resident.decoding else self.prefilling
            if newcomers and newcomers[-1] is resident:
                left = self._serve(resident, left, now)

    # --- preemption -------------------------------------------------------------------------------------

    def _make_room(self, resident: Resident, units: float, now: float) -> bool:
        """Preempt until ``units`` more fit; False if ``resident``, which needs them, is itself preempted."""
        memory, room = self.entrance.memory, self.entrance.room
        while memory.used + units > room:
            victim = max(self.prefilling + self.arrived or self.members.all, key=by_admission)
            self._preempt(victim, now)
            if victim is resident:
                return False
        return True

    def _preempt(self, victim: Resident, now: float) -> None:
        """``victim`` loses slot and memory, and waits in front of everybody (R-A-076, R-B-046)."""
        self._preemptions += 1
        self.stage.account(now)
        self.stage.number -= 1
        if victim in self.members.all:
            self.members.leave(victim)
            if self.grouped:
                self.grouped -= 1  # its token is cancelled, and the budget is spent (R-B-049)
        else:
            (self.arrived if victim.decoding else self.prefilling).remove(victim)
            if victim in self.served:
                self.served.remove(victim)
        session, memory = victim.session, self.entrance.memory
        memory.figures.preemptions += 1
        previous = session.preempted_at.get(memory)
        session.preempted_at[memory] = victim.position
        if previous is not None and victim.position <= previous and not session.stuck:
            session.stuck = True
            memory.figures.stuck += 1
        entrance = self.entrance
        entrance.give_back(victim.units, now)
        if entrance.caches:
            entrance.keep(victim, now, preempted=True)
        session.a_computed = victim.position
        if not self.entrance.join(session, now, preempted=True):
            self._host.end(session)

    # --- live reads -------------------------------------------------------------------------------------

    def budget_left(self) -> float:
        """What is left while an iteration is formed, else what residents would leave now (R-B-042)."""
        if self._forming:
            return self._shown_left
        taken = sum([resident.remaining for resident in self.prefilling])  # whole numbers: in any order
        return max(self._budget - len(self.members.all) - taken - len(self.arrived), 0.0)
