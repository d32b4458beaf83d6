"""Programs in which the reference does what we do not copy: none is generated, and none is minimised to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.fuzz.tree import Block, FuzzProgram, Piece

_GROWING = re.compile(r"\bgrowing (\w+)")
_CAP = re.compile(r"^cap (\d+)$")
LARGE = 100
"""A pool of this size never makes a growing run of a generated program wait."""


def quirks(program: FuzzProgram) -> set[str]:
    """What is in ``program`` that makes it incomparable."""
    found = set()
    pools = {piece.head.split("[")[0].split()[1]: piece for piece in program.items if _is(piece, "pool")}
    growing = {name for piece in _pieces(program.items) for name in _GROWING.findall(piece.head)}
    if any(_may_stall(pools[name]) for name in growing & pools.keys()):
        found.add("a growing run that may stall")
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


def _pieces(block: Block) -> Iterator[Piece]:
    for piece in block:
        yield piece
        for inner in piece.blocks:
            yield from _pieces(inner)


def _may_stall(pool: Piece) -> bool:
    lifo = any(option.head == "preempt lifo" for option in _options(pool))
    return not lifo and _capacity(pool) < LARGE


def _capacity(pool: Piece) -> float:
    return min((float(cap[1]) for option in _options(pool) if (cap := _CAP.match(option.head))), default=1e9)
