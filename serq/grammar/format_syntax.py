"""The parser's tree with all its words, also those that the parser drops once it has read them.

What a node is shows in its words, so that little here depends on the names of the grammar's rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lark import Token, Tree

from serq.grammar.format_words import Words

_BINARY: Final = frozenset({"||", "&&", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "^"})
_PREFIX: Final = frozenset({"-", "!"})
_CARRIES_COMMENTS: Final = frozenset({",", ";", "{"})
"""Words that are written in front of a comment to the end of the line, although it stood before them."""


@dataclass(slots=True)
class Node:
    """One node: the name of its rule, and the words (by number) and nodes it consists of, in order."""

    rule: str
    parts: list[Part]


Part = int | Node


def first_word(part: Part) -> int:
    """The number of the first word of a part."""
    while isinstance(part, Node):
        part = part.parts[0]
    return part


def last_word(part: Part) -> int:
    """The number of the last word of a part."""
    while isinstance(part, Node):
        part = part.parts[-1]
    return part


class Syntax:
    """The items of a text, and the nodes that they consist of, children before their parents."""

    def __init__(self, words: Words, tree: Tree[Token], tokens: Sequence[Token]) -> None:
        self._words = words
        self._texts = words.texts
        self.nodes, self.items = _read(tree, tokens)
        for node in self.nodes:
            self._drop_optional_semicolon(node)
            self._move_comments_before_operators(node)
        for index, text in enumerate(self._texts):
            if text in _CARRIES_COMMENTS and words.gaps[index].ends_line:
                words.gaps[index + 1].take(words.gaps[index], in_front=True)

    def _drop_optional_semicolon(self, node: Node) -> None:
        """A `;` behind what has braces says nothing; it is the only word that a formatted text lacks."""
        last = node.parts[-1]
        if self.word(last) == ";" and any(self.opens_braces(part) for part in node.parts):
            assert isinstance(last, int)
            node.parts.pop()
            self._words.gaps[last + 1].take(self._words.gaps[last], in_front=True)

    def _move_comments_before_operators(self, node: Node) -> None:
        """An operator begins a line: a comment to the end of the line behind it goes before it."""
        if self.is_chain(node) or self.is_conditional(node):
            for operator in node.parts[1::2]:
                index = first_word(operator)
                if self._words.gaps[index + 1].ends_line:
                    self._words.gaps[index].take(self._words.gaps[index + 1], in_front=False)

    def word(self, part: Part) -> str:
        """The text of a word; empty for a node."""
        return self._texts[part] if isinstance(part, int) else ""

    def opens_braces(self, part: Part) -> bool:
        """Whether a part is `{` or a block."""
        return self._texts[first_word(part)] == "{"

    def is_prefixed(self, part: Part) -> bool:
        """`-e` or `!e`."""
        return isinstance(part, Node) and len(part.parts) == 2 and self.word(part.parts[0]) in _PREFIX

    def is_chain(self, part: Part) -> bool:
        """`a + b - c`: operands with operators of one rank between them."""
        if not isinstance(part, Node) or len(part.parts) < 3 or len(part.parts) % 2 == 0:
            return False
        return all(self.word(operator) in _BINARY for operator in part.parts[1::2])

    def is_conditional(self, part: Part) -> bool:
        """`c ? a : b`."""
        return isinstance(part, Node) and len(part.parts) == 5 and self.word(part.parts[1]) == "?"

    def has_commas(self, part: Part) -> bool:
        """A list with commas between its items."""
        return isinstance(part, Node) and any(self.word(inner) == "," for inner in part.parts)


def _read(tree: Tree[Token], tokens: Sequence[Token]) -> tuple[list[Node], list[Part]]:
    starts = {token.start_pos: index for index, token in enumerate(tokens)}
    ends = {token.end_pos: index for index, token in enumerate(tokens)}
    nodes: dict[int, Node] = {}
    for subtree in tree.iter_subtrees():
        if subtree is not tree and not subtree.meta.empty:
            first, last = starts[subtree.meta.start_pos], ends[subtree.meta.end_pos]
            nodes[id(subtree)] = Node(subtree.data, _parts(first, last, _inner(subtree, nodes)))
    return list(nodes.values()), _parts(0, len(tokens) - 1, _inner(tree, nodes))


def _inner(tree: Tree[Token], nodes: Mapping[int, Node]) -> list[Node]:
    return [nodes[id(child)] for child in tree.children if id(child) in nodes]


def _parts(first: int, last: int, children: Sequence[Node]) -> list[Part]:
    parts: list[Part] = []
    at = first
    for child in children:
        parts.extend((*range(at, first_word(child)), child))
        at = last_word(child) + 1
    return [*parts, *range(at, last + 1)]
