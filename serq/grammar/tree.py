"""What reading a text gives: tokens, and the tree of the rules of ``serq.lark`` that they make up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self


class Token(str):
    """A word of a text: its characters, which kind (``type``) they are, and where they stand."""

    __slots__ = ("end_pos", "start_pos", "type")

    type: str
    start_pos: int
    end_pos: int

    def __new__(cls, type_: str, text: str, start_pos: int, end_pos: int) -> Self:
        """The characters ``text``, from ``start_pos`` to ``end_pos``."""
        token = super().__new__(cls, text)
        token.type, token.start_pos, token.end_pos = type_, start_pos, end_pos
        return token


class Tree:
    """A rule that was read: its name, what it consists of (None: an optional part that is missing).

    It stands from ``start_pos`` to ``end_pos``. What stands around the node is told by ``outer_start`` and
    ``outer_end``: they take in the parentheses, say, of a rule whose only child was put in its place. All
    four are None for a rule that was read from nothing.
    """

    __slots__ = ("children", "data", "end_pos", "outer_end", "outer_start", "start_pos")

    def __init__(self, data: str, children: list[Tree | Token | None]) -> None:
        self.data = data
        self.children = children
        self.start_pos: int | None = None
        self.end_pos: int | None = None
        self.outer_start: int | None = None
        self.outer_end: int | None = None

    def stretch(self, start: int, end: int) -> None:
        """Tell the node that what it was read from goes from ``start`` to ``end``."""
        if self.start_pos is None:
            self.start_pos, self.end_pos = start, end
        self.outer_start, self.outer_end = start, end

    def subtrees(self) -> Iterator[Tree]:
        """All nodes, children before their parents, this one last."""
        found = [self]
        for node in found:
            found += [child for child in reversed(node.children) if isinstance(child, Tree)]
        return reversed(found)

    def tokens(self) -> Iterator[Token]:
        """All words that are kept in the tree."""
        for node in self.subtrees():
            yield from (child for child in node.children if isinstance(child, Token))
