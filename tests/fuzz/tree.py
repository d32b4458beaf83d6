"""A program as a tree of text pieces: easy to write at random, to print and to make smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """An item, an option or a statement: ``head { first } joint { second } tail``, or ``head;`` alone."""

    head: str
    blocks: tuple[Block, ...] = ()
    joint: str = "else"
    tail: str = ""

    def lines(self, indent: str = "") -> Iterator[str]:
        """The piece as program text."""
        if not self.blocks:
            yield f"{indent}{self.head};"
            return
        opening = f"{indent}{self.head} {{"
        for block in self.blocks:
            yield opening
            for piece in block:
                yield from piece.lines(indent + "  ")
            opening = f"{indent}}} {self.joint} {{"
        yield f"{indent}}} {self.tail}".rstrip()


Block = tuple[Piece, ...]


@dataclass(frozen=True)
class FuzzProgram:
    """A generated program, and the text of the trace that it replays, if it replays one."""

    items: Block
    trace: str | None = None

    @property
    def text(self) -> str:
        """The program as text."""
        return "\n".join(line for item in self.items for line in item.lines()) + "\n"


def smaller(block: Block) -> Iterator[Block]:
    """The block without one piece, without one of its inner blocks, or smaller inside; big cuts first."""
    size = len(block) // 2
    while size > 1:
        for start in range(0, len(block), size):
            yield block[:start] + block[start + size :]
        size //= 2
    for index, piece in enumerate(block):
        before, after = block[:index], block[index + 1 :]
        yield before + after
        for inner in piece.blocks:
            yield before + inner + after
        for changed in smaller_piece(piece):
            yield (*before, changed, *after)


def smaller_piece(piece: Piece) -> Iterator[Piece]:
    """The piece with less after its block, with one block fewer, or with one smaller block."""
    if piece.tail:
        yield Piece(piece.head, piece.blocks, piece.joint)
    if len(piece.blocks) > 1:
        yield Piece(piece.head, piece.blocks[:1], piece.joint, piece.tail)
    for index, inner in enumerate(piece.blocks):
        for changed in smaller(inner):
            blocks = (*piece.blocks[:index], changed, *piece.blocks[index + 1 :])
            yield Piece(piece.head, blocks, piece.joint, piece.tail)
