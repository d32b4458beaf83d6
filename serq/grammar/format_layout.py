"""The style of the language: where a program's words stand close, apart, or on lines of their own.

Every node of the tree becomes a document, children before parents. What a node is shows in its words
(operators, brackets, braces), so that new statements and options are laid out without a rule of their own;
only the places where a bracket stands close to the name before it are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from serq.grammar.format_document import INDENT, Break, Document, Group, Indented, Space, Word
from serq.grammar.format_syntax import Node, Part, Syntax, first_word, last_word
from serq.grammar.format_words import Words

CALLS: Final = frozenset(
    {"call", "draw", "call_statement", "arrival_of", "fifo", "ps"} | {"expression_def", "statement_def"}
)
"""Rules whose `(` stands close to the name before it."""

STATEMENTS: Final = "block"
"""The rule for statements in braces; other braces hold options."""

_CLOSING: Final = {"(": ")", "[": "]"}
_CLOSE_TO_NEXT: Final = frozenset({"(", "[", "~"})
_CLOSE_TO_PREVIOUS: Final = frozenset({")", "]", ",", ";"})
_SHORT: Final = 2
"""Words of an item, such as `-1`, that shares its line with others in a list that needs several lines."""


class Layout:
    """The documents of the nodes of one text."""

    def __init__(self, words: Words, syntax: Syntax) -> None:
        self._words = words
        self._syntax = syntax
        self._documents: dict[int, Document] = {}
        self._braced: set[int] = set()
        """The nodes with braces in them."""
        self._tall: set[int] = set()
        """The nodes that do not go on one line."""
        self._line_of = [0]
        for gap in words.gaps:
            self._line_of.append(self._line_of[-1] + gap.lines)

    def program(self) -> Document:
        """The document of the whole text."""
        document: list[Document] = []
        further_arms = self._further_arms()
        for node in self._syntax.nodes:
            if id(node) in further_arms:
                self._measure(node)
            else:
                self._documents[id(node)] = self._node(node)
        for item in self._syntax.items:
            document += [_new_line(item), self._part(item)]
        end = len(self._words.texts)
        return [*document, _new_line(end)]

    def _further_arms(self) -> set[int]:
        """The nodes that are laid out together with the arm before them."""
        conditionals = filter(self._syntax.is_conditional, self._syntax.nodes)
        return {id(node.parts[-1]) for node in conditionals if self._syntax.is_conditional(node.parts[-1])}

    def _part(self, part: Part) -> Document:
        return Word(part) if isinstance(part, int) else self._documents[id(part)]

    def _node(self, node: Node) -> Document:
        self._measure(node)
        if self._syntax.is_conditional(node):
            return Group(self._arms(node))
        if self._syntax.is_chain(node):
            return Group(self._chain(node))
        if self._syntax.is_prefixed(node):
            return self._prefixed(node)
        return self._sentence(node)

    # --- expressions ---

    def _chain(self, node: Node) -> list[Document]:
        """Operands; every operator may begin a line."""
        document = [self._hanging(node.parts[0])]
        for operator, operand in zip(node.parts[1::2], node.parts[2::2], strict=True):
            document += self._operation(operator, operand)
        return document

    def _arms(self, node: Node) -> list[Document]:
        """`c ? a : d ? b : e`, an arm a line where it does not fit on one."""
        document: list[Document] = []
        while True:
            condition, question, value, colon, otherwise = node.parts
            document.append(Group([self._hanging(condition), Indented(self._operation(question, value))]))
            if not isinstance(otherwise, Node) or not self._syntax.is_conditional(otherwise):
                return [*document, *self._operation(colon, otherwise)]
            document += [_may_break(colon), self._part(colon), Space(first_word(otherwise))]
            node = otherwise

    def _operation(self, operator: Part, operand: Part) -> list[Document]:
        between = Space(first_word(operand))
        return [_may_break(operator), self._part(operator), between, self._hanging(operand)]

    def _hanging(self, part: Part) -> Document:
        """A part; the further lines of what breaks before operators are indented."""
        return Indented(self._part(part)) if self._breaks_at_operators(part) else self._part(part)

    def _breaks_at_operators(self, part: Part) -> bool:
        return self._syntax.is_chain(part) or self._syntax.is_conditional(part)

    def _prefixed(self, node: Node) -> Document:
        operator, operand = node.parts
        index = first_word(operand)
        double_minus = self._syntax.word(operator) == self._words.texts[index] == "-"
        return [self._part(operator), Space(index, " " if double_minus else ""), self._hanging(operand)]

    # --- statements, options, items, and what they consist of ---

    def _sentence(self, node: Node) -> Document:
        """Words and phrases in a row, up to braces; then the braces and what follows them."""
        parts = node.parts
        opening = next((i for i, part in enumerate(parts) if self._syntax.opens_braces(part)), len(parts))
        if opening == len(parts):
            return self._header(node, parts)
        body = self._body(node, parts[opening:])
        if not opening:
            return body
        return [self._header(node, parts[:opening]), Space(first_word(parts[opening])), body]

    def _header(self, node: Node, parts: Sequence[Part]) -> Document:
        """A sentence without braces. Where it does not fit, every clause goes to a line of its own."""
        first: list[Document] = []
        clauses: list[Document] = []
        target = first
        index = 0
        while index < len(parts):
            end = self._end_of_phrase(parts, index)
            brackets = end > index + 1
            phrase = self._bracketed(parts[index:end]) if brackets else self._hanging(parts[index])
            if not index:
                target.append(phrase)
            elif self._begins_clause(parts, index):
                target = clauses
                target += [_may_break(parts[index]), phrase]
            elif self._syntax.word(parts[index - 1]) == "=" and self._breaks_at_operators(parts[index]):
                target.append(Group(Indented([_may_break(parts[index]), self._part(parts[index])])))
            else:
                target += [self._between(node, parts[index - 1], parts[index]), phrase]
            index = end
        opens_braces = len(parts) < len(node.parts)
        return Group([*first, Indented(clauses, 2 * INDENT if opens_braces else INDENT)])

    def _end_of_phrase(self, parts: Sequence[Part], start: int) -> int:
        """Behind the bracket that closes the one at ``start``, or behind the part there."""
        closing = _CLOSING.get(self._syntax.word(parts[start]))
        if closing is None:
            return start + 1
        return next(i for i in range(start, len(parts)) if self._syntax.word(parts[i]) == closing) + 1

    def _begins_clause(self, parts: Sequence[Part], index: int) -> bool:
        """Whether a node follows another, a comma or a bracket, as `growing p` in `run s (w) growing p`."""
        part = parts[index]
        if isinstance(part, int) or self._words.texts[first_word(part)] in _CLOSING:
            return False
        before = parts[index - 1]
        follows_comma = self._syntax.word(before) == "," and not self._is_short(part)
        return isinstance(before, Node) or self._syntax.word(before) == ")" or follows_comma

    def _between(self, node: Node, left: Part, right: Part) -> Document:
        """The space between two parts of a node that belong together."""
        before, after = self._words.texts[last_word(left)], self._words.texts[first_word(right)]
        if before == ",":
            return Group(Indented(_may_break(right)))
        close = (
            before in _CLOSE_TO_NEXT
            or after in _CLOSE_TO_PREVIOUS
            or (after == "[" and before != "==")
            or (after == "(" and node.rule in CALLS)
        )
        return Space(first_word(right), "" if close else " ")

    def _is_short(self, part: Part) -> bool:
        return last_word(part) - first_word(part) < _SHORT

    def _bracketed(self, parts: Sequence[Part]) -> Document:
        """`( … )` or `[ … ]`; where it does not fit, its items stand on lines between the brackets."""
        opening, *inner, closing = parts
        while len(inner) == 1 and isinstance(inner[0], Node) and self._is_list(inner[0]):
            inner = inner[0].parts
        if len(inner) == 1 and isinstance(inner[0], Node) and inner[0].rule in CALLS:
            return self._hugged(opening, inner[0], closing)
        items = [part for part in inner if self._syntax.word(part) != ","]
        fill = len(items) > 1 and all(self._is_short(item) for item in items)
        content: list[Document] = []
        for index, part in enumerate(inner):
            if self._syntax.word(part) == ",":
                space: Document = Space(first_word(part), "")
            else:
                space = _may_break(part, " " if index else "")
            content.append(Group(space) if fill and index else space)
            content.append(self._part(part) if len(items) == 1 else self._hanging(part))
        end: list[Document] = [_may_break(closing, ""), self._part(closing)]
        return Group([self._part(opening), Indented(content), *end])

    def _hugged(self, opening: Part, call: Node, closing: Part) -> Document:
        """`f(g(x))`: only the inner brackets break their line."""
        inner = [Space(first_word(call), ""), self._part(call), Space(first_word(closing), "")]
        return [self._part(opening), *inner, self._part(closing)]

    def _is_list(self, node: Node) -> bool:
        """Whether a node only holds together what stands between brackets."""
        return len(node.parts) == 1 or self._syntax.has_commas(node)

    # --- braces ---

    def _measure(self, node: Node) -> None:
        """Find out whether a node has braces and whether they may stand on one line (`_braced`, `_tall`)."""
        inner = [part for part in node.parts if isinstance(part, Node)]
        braces = [part for part in node.parts if self._syntax.word(part) == "{"]
        if braces or any(id(part) in self._braced for part in inner):
            self._braced.add(id(node))
        if any(id(part) in self._tall for part in inner) or (braces and not self._on_one_line(node, inner)):
            self._tall.add(id(node))

    def _on_one_line(self, node: Node, inner: Sequence[Node]) -> bool:
        """Braces stay on one line if they were written so; of statements only one without braces may."""
        opening = next(part for part in node.parts if self._syntax.word(part) == "{")
        if self._lines_within(opening, node.parts[-1]):
            return False
        if node.rule != STATEMENTS:
            return True
        return not inner or (len(inner) == 1 and id(inner[0]) not in self._braced)

    def _lines_within(self, first: Part, last: Part) -> int:
        return self._line_of[last_word(last) + 1] - self._line_of[first_word(first) + 1]

    def _body(self, node: Node, parts: Sequence[Part]) -> Document:
        """What begins with braces: options, or blocks and what stands between and behind them."""
        if isinstance(parts[0], int):
            braces = self._braces(node, parts)
            return braces if node.rule == STATEMENTS else Group(braces)
        document: list[Document] = []
        for index, part in enumerate(parts):
            if index:
                hang = 0 if self._syntax.word(part) == "else" else INDENT
                document.append(Space(first_word(part), hang=hang))
            document.append(self._part(part))
        return Group(document)

    def _braces(self, node: Node, parts: Sequence[Part]) -> Document:
        opening, *items, closing = parts
        end = self._part(closing)
        if not items and not self._words.gaps[last_word(closing)].comments:
            return [self._part(opening), Space(last_word(closing), ""), end]
        breaks = Break.MUST if id(node) in self._tall else Break.MAY
        content: list[Document] = []
        for row in self._rows(node, opening, items):
            first, *others = row
            content.append(Space(first_word(first), breaks=breaks, keeps_blank=True))
            together = [self._part(first)]
            for item in others:
                together += [_may_break(item), self._part(item)]
            content.append(Group(together))
        return [self._part(opening), Indented(content), Space(first_word(closing), breaks=breaks), end]

    def _rows(self, node: Node, opening: Part, items: Sequence[Part]) -> list[list[Part]]:
        """Options that were written on one line share it; statements have lines of their own."""
        rows = [[item] for item in items[:1]]
        separate = node.rule == STATEMENTS or (items and not self._lines_within(opening, items[0]))
        for before, item in pairwise(items):
            tall = id(before) in self._tall or id(item) in self._tall
            if separate or tall or self._lines_within(before, item):
                rows.append([item])
            else:
                rows[-1].append(item)
        return rows


def _may_break(part: Part, flat: str = " ") -> Space:
    return Space(first_word(part), flat, breaks=Break.MAY)


def _new_line(part: Part) -> Space:
    return Space(first_word(part), breaks=Break.MUST, keeps_blank=True)
