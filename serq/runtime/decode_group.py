"""Residents of an engine that decode one token in every iteration, counted together (law L1).

An iteration changes all of them in the same way, so what changes is kept once: how many iterations there
were. What one of them has left, how far it is and what it holds follow from when it joined. Everything here
is in whole numbers, of which sums and differences are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from serq.runtime.token_run import TokenRun

if TYPE_CHECKING:
    from serq.runtime.pool import Pool

_LARGEST: Final = 2.0**52


def by_admission(run: TokenRun) -> tuple[float, int]:
    """The default order of residents (R-B-021)."""
    return (run.admission, run.order)


def _whole(amount: float) -> bool:
    return 0.0 <= amount < _LARGEST and amount.is_integer()


@dataclass(slots=True)
class Growth:
    """How many members grow by a block when: those of remainder r whenever ``iteration % block`` is r."""

    block: int
    counts: dict[int, int] = field(default_factory=dict)
    later: dict[int, int] = field(default_factory=dict)
    """Iteration -> members that grow then for the first time."""

    def add(self, first: int, sign: int, now: int) -> None:
        """A member whose first growth is in ``first`` joins (1) or leaves (-1) before iteration ``now``.

        Within the next ``block`` iterations its remainder comes for the first time in ``first``.
        """
        block = self.block
        counts, key = (self.counts, first % block) if first < now + block else (self.later, first)
        counts[key] = counts.get(key, 0) + sign

    def at(self, iteration: int) -> int:
        """How many grow in ``iteration``, all of those before having been taken."""
        return self.counts.get(iteration % self.block, 0) + self.later.get(iteration, 0)

    def take(self, iteration: int) -> int:
        """The same; those that grow for the first time grow every ``block`` iterations from now on."""
        remainder = iteration % self.block
        first = self.later.pop(iteration, 0)
        if first:
            self.counts[remainder] = self.counts.get(remainder, 0) + first
        return self.counts.get(remainder, 0)

    def ahead(self, start: int, steps: int) -> list[int]:
        """How many grow in each of the ``steps`` iterations from ``start`` on."""
        block, counts = self.block, self.counts
        out = [counts.get(iteration % block, 0) for iteration in range(start, start + min(block, steps))]
        if steps > block:
            out = (out * (steps // block + 1))[:steps]
        for iteration, first in self.later.items():
            for place in range(iteration - start, steps, block):
                out[place] += first
        return out

    def pass_over(self, start: int, steps: int) -> None:
        """The ``steps`` iterations from ``start`` on were taken."""
        if self.later:
            for iteration in [key for key in self.later if key < start + steps]:
                self.take(iteration)

    def copy(self) -> Growth:
        """The same, to be counted apart from here on."""
        return Growth(self.block, self.counts.copy(), self.later.copy())


class DecodeGroup:
    """The members, and what they come to.

    ``done`` iterations were applied. ``formed`` of them were launched: one more while one is under way. In
    ``grown`` of them members have grown: one more while one is formed.
    """

    def __init__(self) -> None:
        self.members: set[TokenRun] = set()
        self.done = self.formed = self.grown = 0
        self.units = 0.0
        """Units of the engine's memory that members hold (`kv_decode`)."""
        self.pool: Pool | None = None
        """The pool into which members grow."""
        self.growth = Growth(1)
        self.memory_growth: Growth | None = None
        """The part of it that is in the engine's memory; None: all of it is."""
        self._ends: list[tuple[int, float, int, TokenRun]] = []
        """A heap: in which iteration who is done; at equal ones in the order of admission (R-B-028)."""
        self._fresh: list[TokenRun] = []
        """Members that were under way in no iteration."""

    # --- members ----------------------------------------------------------------------------------------

    def admits(self, run: TokenRun) -> bool:
        """Whether ``run`` can be counted with the others."""
        if not (run.decoding and run.schedulable and _whole(run.remaining) and _whole(run.memory_units())):
            return False
        allocation = run.growing
        if allocation is None:
            return True
        pool = allocation.pool
        block = 1.0 if pool.block is None else pool.block
        return (
            _whole(allocation.position)
            and _whole(allocation.units)
            and allocation.position <= allocation.units
            and _whole(block)
            and allocation.units % block == 0.0
            and (self.pool is None or self.pool is pool)
        )

    def join(self, run: TokenRun) -> None:
        """``run`` takes part from the next iteration on; none is under way or formed."""
        self.members.add(run)
        self._fresh.append(run)
        run.since = self.done
        heappush(self._ends, (self.done + int(run.remaining), run.admission, run.order, run))
        self.units += run.memory_units()
        allocation = run.growing
        if allocation is None:
            return
        if self.pool is None:
            self.pool = allocation.pool
            self.growth = Growth(1 if self.pool.block is None else int(self.pool.block))
        if self.memory_growth is None and allocation is not run.held:
            self.memory_growth = self.growth.copy()
        run.first_growth = self.grown + int(allocation.units - allocation.position)
        self._count_growth(run, 1)

    def _count_growth(self, run: TokenRun, sign: int) -> None:
        self.growth.add(run.first_growth, sign, self.grown)
        if self.memory_growth is not None and run.growing is run.held:
            self.memory_growth.add(run.first_growth, sign, self.grown)

    def leave(self, run: TokenRun) -> None:
        """``run`` is gone before its end; what was counted for it is written into it."""
        if run.growing is not None:
            self._count_growth(run, -1)
        self._write(run)
        self.units -= run.memory_units()
        self.members.discard(run)
        if run in self._fresh:
            self._fresh.remove(run)

    def remaining(self, run: TokenRun) -> float:
        """Tokens that a member has left."""
        return run.remaining - (self.done - run.since)

    def _write(self, run: TokenRun) -> None:
        """Write into ``run`` what was counted for it."""
        allocation = run.growing
        if allocation is not None:
            allocation.position += self.formed - run.since
            if run.first_growth < self.grown:
                block = self.growth.block
                allocation.units += ((self.grown - 1 - run.first_growth) // block + 1) * block
        run.remaining -= self.done - run.since

    def dissolve(self) -> list[TokenRun]:
        """Write into all members what was counted for them, in the order of admission; the group is spent."""
        runs = sorted(self.members, key=by_admission)
        for run in runs:
            self._write(run)
        return runs

    # --- iterations -------------------------------------------------------------------------------------

    @property
    def until_finish(self) -> int:
        """In how many iterations more, that under way included, a member is done."""
        ends, members = self._ends, self.members
        while ends[0][3] not in members:  # it was preempted
            heappop(ends)
        return ends[0][0] - self.done

    def grows_next(self, run: TokenRun) -> bool:
        """Whether ``run``, a member, needs a block for the iteration that is formed."""
        ahead = self.grown - run.first_growth
        return run.growing is not None and ahead >= 0 and ahead % self.growth.block == 0

    def grow(self) -> None:
        """The members grow for the iteration that is formed; their pool has given the units."""
        if self.pool is not None:
            growing = self.growth.take(self.grown)
            if self.memory_growth is not None:
                growing = self.memory_growth.take(self.grown)
            self.units += growing * self.growth.block
        self.grown += 1

    def growth_ahead(self, steps: int) -> tuple[list[int], list[int]]:
        """How many members grow in each of the next ``steps`` iterations, and how many in the memory."""
        if self.pool is None:
            return [0] * steps, [0] * steps
        growing = self.growth.ahead(self.grown, steps)
        if self.memory_growth is None:
            return growing, growing
        return growing, self.memory_growth.ahead(self.grown, steps)

    def advance(self, count: int) -> list[int]:
        """``count`` iterations are done, and as many launched, in which nobody is done.

        Returns how many members grew for each of those that were launched; their pool gives the units.
        """
        growing, in_memory = self.growth_ahead(count)
        if self.pool is not None:
            self.units += sum(in_memory) * self.growth.block
            self.growth.pass_over(self.grown, count)
            if self.memory_growth is not None:
                self.memory_growth.pass_over(self.grown, count)
        self.done += count
        self.grown += count
        self.formed += count
        return growing

    def launch(self) -> None:
        """The iteration that was formed is under way."""
        self.formed += 1
        if self._fresh:
            for run in self._fresh:
                allocation = run.growing
                if allocation is not None and not run.advanced:
                    run.advanced = allocation.hold.tracked = True
            self._fresh.clear()

    def finish(self) -> list[TokenRun]:
        """The iteration under way is done. Returns the members that are, which have left."""
        self.done += 1
        done, ends, members = self.done, self._ends, self.members
        finished = []
        while ends and ends[0][0] == done:
            run = heappop(ends)[3]
            if run in members:
                self.leave(run)
                finished.append(run)
        return finished
