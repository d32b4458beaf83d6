"""A session in its hold, and the residents that decode: what of them is counted together."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from serq.runtime.decode_group import Growth

if TYPE_CHECKING:
    from serq.runtime.session import Session
    from serq.runtime.straight.engine import StraightEngine

Taken = tuple[float, float, float]
"""Of an admitted session: units of the memory, its prefix there, and its prefix in the cache of the slots."""


class Resident:
    """A session in its hold: what it has of the memory, and the run that it is in."""

    __slots__ = ("admission", "decoding", "engine", "first_growth", "given", "joined", "position",
                 "remaining", "resumed", "session", "since", "slot_prefix", "tracked", "units")  # fmt: skip

    def __init__(self, session: Session, engine: StraightEngine, admission: int, taken: Taken) -> None:
        self.session = session
        self.engine = engine
        self.admission = admission
        self.units, self.position, self.slot_prefix = taken
        """Units of the memory, tokens that are there, and what was found in the cache of the slots."""
        self.tracked = False
        """Whether tokens were ever computed in the hold (R-A-078)."""
        self.resumed = False
        """Whether a run of it had no tokens (R-A-079)."""
        self.decoding = False
        self.joined = 0.0
        """When the run began."""
        self.remaining = 0.0
        """Tokens of the run that are still to be computed, at its begin or when it became a member."""
        self.given = 0.0
        """Tokens of the iteration that is formed or under way."""
        self.since = self.first_growth = 0
        """Of a member: the iterations before it, and that in which it first grows."""


def by_admission(resident: Resident) -> int:
    """The order in which residents are served."""
    return resident.admission


class Members:
    """Residents that decode a token in every iteration, in numbers (see :mod:`serq.runtime.decode_group`).

    The iterations that they take part in are numbered: ``launched`` of them were, and they have grown for
    ``grown``, which is one more while an iteration is formed.
    """

    __slots__ = ("_ends", "all", "block", "grown", "growth", "launched", "period", "units")

    def __init__(self, block: float) -> None:
        self.all: set[Resident] = set()
        self.block = block
        self.period = int(block)
        self.launched = self.grown = 0
        self.units = 0.0
        """What they hold of the memory."""
        self.growth = Growth(self.period)
        self._ends: list[tuple[int, int, Resident]] = []
        """A heap: after which iteration who is done; at equal ones in the order of admission (R-B-028)."""

    def join(self, residents: list[Resident]) -> None:
        """``residents`` take part from the next iteration on."""
        launched, grown, growth, ends = self.launched, self.grown, self.growth, self._ends
        for resident in residents:
            self.all.add(resident)
            resident.since = launched
            heappush(ends, (launched + int(resident.remaining), resident.admission, resident))
            first = resident.first_growth = grown + int(resident.units - resident.position)
            growth.add(first, 1, grown)
            self.units += resident.units

    def leave(self, member: Resident) -> None:
        """``member`` is none any more: what was counted for it is written into it."""
        self.all.discard(member)
        first = member.first_growth
        self.growth.add(first, -1, self.grown)
        self.units -= member.units
        member.position += self.launched - member.since
        if self.launched > member.since:
            member.tracked = True
        if first < self.grown:
            more = ((self.grown - 1 - first) // self.period + 1) * self.block
            member.units += more
            self.units -= more

    def grows_next(self, member: Resident) -> bool:
        """Whether ``member`` needs a block for the iteration that is formed."""
        ahead = self.grown - member.first_growth
        return ahead >= 0 and ahead % self.period == 0

    def growing(self) -> int:
        """How many need a block for the iteration that is formed."""
        growth = self.growth
        if growth.later:
            return growth.at(self.grown)
        return growth.counts.get(self.grown % self.period, 0)

    def grow(self) -> None:
        """They have it."""
        self.units += self.growth.take(self.grown) * self.block
        self.grown += 1

    def done(self) -> list[Resident]:
        """The last iteration has ended: who is done with it has left."""
        ends, launched = self._ends, self.launched
        finished = []
        while ends and ends[0][0] <= launched:
            member = heappop(ends)[2]
            if member in self.all:
                self.leave(member)
                finished.append(member)
        return finished

    def until_done(self) -> int:
        """After how many more iterations a member is done; there is one."""
        ends = self._ends
        while ends[0][2] not in self.all:  # it was preempted
            heappop(ends)
        return ends[0][0] - self.launched
