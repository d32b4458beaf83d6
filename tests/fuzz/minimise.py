"""Make a differing program as small as its difference allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.tree import Block, FuzzProgram, Piece, smaller

Differs = Callable[[FuzzProgram], bool]


def minimised(program: FuzzProgram, differs: Differs, attempts: int = 600) -> FuzzProgram:
    """The smallest program found that still differs; at most ``attempts`` programs are tried."""
    left = attempts
    changed = True
    while changed and left > 0:
        changed = False
        for candidate in _candidates(program):
            left -= 1
            if left <= 0:
                break
            if differs(candidate):
                program = candidate
                changed = True
                break
    return program


def _candidates(program: FuzzProgram) -> Iterator[FuzzProgram]:
    """Smaller programs: with less in them, then with simpler expressions."""
    for items in smaller(program.items):
        yield replace(program, items=items)
    for items in _simpler(program.items):
        yield replace(program, items=items)
    if program.trace is not None:
        rows = program.trace.splitlines()
        for index in range(1, len(rows)):
            yield replace(program, trace="\n".join(rows[:index] + rows[index + 1 :]) + "\n")


_PARENTHESES = re.compile(r"\(([^()]*)\)")
_COUNT = re.compile(r"^arrive (batch|closed)\((\d+)\)$")


def _simpler(block: Block) -> Iterator[Block]:
    """The same statements with a constant for an innermost expression, or with fewer sessions."""
    for index, piece in enumerate(block):
        for simpler in _simpler_piece(piece):
            yield (*block[:index], simpler, *block[index + 1 :])


def _simpler_piece(piece: Piece) -> Iterator[Piece]:
    count = _COUNT.match(piece.head)
    if count and int(count[2]) > 1:
        yield replace(piece, head=f"arrive {count[1]}({int(count[2]) - 1})")
    for found in _PARENTHESES.finditer(piece.head):
        if len(found[1]) > 2:
            for constant in ("0", "1", "2"):
                yield replace(
                    piece, head=f"{piece.head[: found.start()]}({constant}){piece.head[found.end() :]}"
                )
    if " = " in piece.head and not piece.head.startswith(("hold", "def")):
        name, _, value = piece.head.partition(" = ")
        for constant in ("0", "1", "now"):
            if len(value) > len(constant):
                yield replace(piece, head=f"{name} = {constant}")
    for position, inner in enumerate(piece.blocks):
        for simpler in _simpler(inner):
            blocks = (*piece.blocks[:position], simpler, *piece.blocks[position + 1 :])
            yield replace(piece, blocks=blocks)
