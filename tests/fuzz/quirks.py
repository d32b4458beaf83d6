"""What the reference does and we do not copy: programs with it are avoided, or ours is made to do it too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from serq.runtime.hold import Allocation, Grower
from serq.runtime.holdings import Holdings
from serq.runtime.step_scheduler import StepScheduler
from serq.runtime.token_run import TokenRun
from tests.fuzz.tree import Block, FuzzProgram, Piece

_CAP = re.compile(r"^cap (\d+)$")
LARGE = 100
"""A tier of this size is never full in a generated program."""


def quirks(program: FuzzProgram) -> set[str]:
    """What is in ``program`` that makes it incomparable."""
    found = set()
    pools = {piece.head.split("[")[0].split()[1]: piece for piece in program.items if _is(piece, "pool")}
    admitting = any("admit via" in option.head for pool in pools.values() for option in _options(pool))
    if admitting and any(": ps" in piece.head for piece in program.items if _is(piece, "stage")):
        found.add("a `ps` stage beside a pool that an engine admits")
    for pool in pools.values():
        spilling = [option.head.split()[1] for option in _options(pool) if option.head.startswith("spill")]
        if any(name in pools and _capacity(pools[name]) < LARGE for name in spilling):
            found.add("a spill into a tier that may be full")
    return found


def _is(piece: Piece, what: str) -> bool:
    return piece.head.startswith(f"{what} ")


def _options(piece: Piece) -> Block:
    return piece.blocks[0] if piece.blocks else ()


def _capacity(pool: Piece) -> float:
    return min((float(cap[1]) for option in _options(pool) if (cap := _CAP.match(option.head))), default=1e9)


@contextmanager
def as_the_reference_counts() -> Iterator[None]:
    """Inside, ours miscounts what the reference miscounts, so that everything else can be compared.

    A growing run that waited for memory has its position advanced by the grant too (R-B-045), and a hold that
    is preempted with nothing computed leaves its slots cached (R-A-079; DEVIATIONS.tsv, b058 and b062).
    """
    grow, give_back = StepScheduler._grow, Holdings._return

    def counting_twice(self: StepScheduler, run: TokenRun, allocation: Allocation, tokens: float) -> bool:
        missing = allocation.position + tokens - allocation.units
        if grow(self, run, allocation, tokens):
            return True
        if not allocation.returned:
            _advance_when_granted(allocation.pool.growers[-1], missing)
        return False

    def keeping_slots(self: Holdings, allocation: Allocation, preempted: bool = False) -> None:
        allocation.hold.resumed_on = None
        give_back(self, allocation, preempted)

    StepScheduler._grow = counting_twice  # type: ignore[method-assign]
    Holdings._return = keeping_slots  # type: ignore[method-assign]
    try:
        yield
    finally:
        StepScheduler._grow = grow  # type: ignore[method-assign]
        Holdings._return = give_back  # type: ignore[method-assign]


def _advance_when_granted(grower: Grower, tokens: float) -> None:
    granted = grower.granted

    def advance() -> None:
        grower.allocation.position += tokens
        granted()

    grower.granted = advance
