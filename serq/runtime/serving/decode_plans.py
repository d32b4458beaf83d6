"""When the steps of a steady run end: what each costs, added one after the other."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from itertools import accumulate, cycle, islice, repeat
from math import inf
from operator import sub
from typing import Final, Protocol

from serq.errors import RunError
from serq.kernels.executor import DecodeTotals, Executor, Price
from serq.runtime.clock import Clock
from serq.runtime.pricing import MeteredExecutor
from serq.runtime.serving.step_totals import StepTotals
from serq.runtime.vllm.fast.steady_run import SteadyRun

_CHANGING: Final = frozenset({"context_decode", "kv_decode", "now"})
"""What changes from one step of a steady run to the next, of all that a cost can read."""


class DecodeCost(Protocol):
    """What a step of decodes alone costs: the same, bit for bit, as the step that is formed would."""

    changes: bool
    """Whether steps of equally many decodes may cost different amounts."""

    sees_extremes: bool
    """Whether it reads the smallest and the largest context; else they are 0."""

    def begin(self) -> None:
        """A plan is made; those before are over."""

    def price(self, running: int, decodes: DecodeTotals, slots: int, now: float) -> float | None:
        """The cost of the next step of the plan, formed at ``now``, None if the rows must be seen.

        ``decodes`` are those of the ``running`` requests that have a share, in ``slots`` slots.
        """

    def formed(self, first: int, end: int) -> None:
        """Steps ``first`` to ``end - 1`` of the plan have been formed."""


class ExpressionCost:
    """A cost expression that reads nothing but the step and the clock."""

    def __init__(self, cost: Callable[[StepTotals], float], reads: Set[str], clock: Clock) -> None:
        self._cost = cost
        self._clock = clock
        self._reads_clock = "now" in reads
        self.changes = bool(reads & _CHANGING)
        self.sees_extremes = False

    def begin(self) -> None:
        """Nothing is kept of a plan."""

    def formed(self, first: int, end: int) -> None:
        """Nothing is kept of a plan."""

    def price(self, running: int, decodes: DecodeTotals, slots: int, now: float) -> float | None:
        """The value of the expression, as it will be read at ``now``."""
        count = decodes.decoders
        totals = StepTotals(running, count, count)
        totals.add_decodes(count, decodes.context, slots)
        if not self._reads_clock:
            return self._cost(totals)
        clock = self._clock
        before, clock.now = clock.now, now
        try:
            return self._cost(totals)
        finally:
            clock.now = before


class ExecutorCost:
    """An executor: what it charges is written into the ledger when a planned step has been formed."""

    def __init__(self, metered: MeteredExecutor) -> None:
        self._metered = metered
        self._prices: list[Price] = []
        self.changes = self.sees_extremes = True

    def begin(self) -> None:
        """Forget what the plan before was priced at."""
        self._prices.clear()

    def price(self, running: int, decodes: DecodeTotals, slots: int, now: float) -> float | None:
        """What the executor charges, which depends on the step alone."""
        price = self._metered.executor.price_decodes(decodes)
        if price is None:
            return None
        self._prices.append(price)
        return price.seconds

    def formed(self, first: int, end: int) -> None:
        """Write prices into the ledger, in the order of forming."""
        for price in self._prices[first:end]:
            self._metered.ledger.add(price)


def sees_rows(executor: Executor) -> bool:
    """Whether ``executor`` must see the rows of a step of decodes alone."""
    try:
        return executor.price_decodes(DecodeTotals(1, 1, 1, 1)) is None
    except RunError:
        return False


@dataclass(slots=True)
class StepsAhead:
    """Planned steps: when each ends on the device, and the free blocks when it has been formed.

    ``ends`` begins with those in flight; the steps that are planned follow them.
    """

    ends: list[float]
    free: list[int] = field(default_factory=list)


def plan_steps(
    run: SteadyRun, cost: DecodeCost, running: int, block_size: int, in_flight: list[float], limit: int
) -> StepsAhead:
    """The steps of ``run``, ``limit`` at most, after those ``in_flight``; fewer where blocks or time run out.

    A step that cannot be priced now, or whose cost is not one, is left to the walk, which says why.
    """
    ahead = StepsAhead(in_flight)
    cost.begin()
    steps = min(run.limit, limit)
    whole = steps - (run.tail is not None and steps == run.limit)
    try:
        done = _add_whole(run, cost, running, block_size, ahead, whole)
        if done and whole < steps:
            _add_tail(run, cost, running, block_size, ahead)
    except RunError:
        pass
    return ahead


def _add_whole(
    run: SteadyRun, cost: DecodeCost, running: int, block_size: int, ahead: StepsAhead, steps: int
) -> bool:
    """Add ``steps`` steps of all decodes; whether all could be added."""
    if not cost.changes and _add_alike(run, cost, running, block_size, ahead, steps):
        return True
    ends, frees, needs = ahead.ends, ahead.free, run.needs
    depth = len(ends)
    free, held, context, count = run.free, run.held, run.context, run.count
    size = len(needs)
    end = ends[-1]
    smallest, largest = run.extremes(run.number) if cost.sees_extremes else (0, 0)
    price: float | None = None
    for step in range(steps):
        need = needs[step % size]
        free -= need
        if free < 0:
            return False
        if cost.changes or price is None:
            held += need
            decodes = DecodeTotals(count, context, smallest + step, largest + step)
            price = cost.price(running, decodes, held * block_size, ends[step])
            context += count
            if price is None or not 0.0 < price < inf:
                return False
        following = end + price
        if not following > end:
            return False
        end = following
        ends.append(end)
        frees.append(free)
    return len(ends) == depth + steps


def _add_alike(
    run: SteadyRun, cost: DecodeCost, running: int, block_size: int, ahead: StepsAhead, steps: int
) -> bool:
    """Add ``steps`` steps that cost the same, at once; False, and none is added, if not all can be.

    Sums that grow with the last step have grown with every one before: one that does not, never does again.
    """
    needs = run.needs
    slots = (run.held + needs[0]) * block_size
    price = cost.price(running, DecodeTotals(run.count, run.context, 0, 0), slots, ahead.ends[0])
    if price is None or not 0.0 < price < inf or steps < 1:
        return False
    last = ahead.ends[-1]
    ends = list(accumulate(repeat(price, steps), initial=last))
    taken = islice(cycle(needs), steps) if steps > len(needs) else needs[:steps]
    free = list(accumulate(taken, sub, initial=run.free))
    if free[-1] < 0 or not ends[-1] > ends[-2]:
        return False
    ahead.ends += ends[1:]
    ahead.free += free[1:]
    return True


def _add_tail(run: SteadyRun, cost: DecodeCost, running: int, block_size: int, ahead: StepsAhead) -> None:
    """Add the last step, without those who have had all their shares."""
    assert run.tail is not None
    count, context, leaving, need = run.tail
    ends, steps = ahead.ends, len(ahead.free)
    free = (ahead.free[-1] if steps else run.free) - need
    held = run.held + (run.free - free) - leaving
    if free < 0:
        return
    extremes = run.extremes(run.number + steps) if cost.sees_extremes else (0, 0)
    price = cost.price(running, DecodeTotals(count, context, *extremes), held * block_size, ends[steps])
    if price is not None and 0.0 < price < inf and ends[-1] + price > ends[-1]:
        ends.append(ends[-1] + price)
        ahead.free.append(free)
