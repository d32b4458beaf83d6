"""The depth of a program, measured before anything walks it."""

from __future__ import annotations

from typing import Final

from lark import Token, Tree

from serq.ir.limits import MAX_DEPTH
from serq.source import Diagnostic, SourceFile, Span

_CHAINS: Final = frozenset({"or_", "and_", "add", "mul"})
_OTHERS: Final = frozenset(
    {"conditional", "comparison", "prefixed", "power", "parenthesised", "draw", "call", "aggregate"}
)


def too_deep(source: SourceFile, tree: Tree[Token]) -> Diagnostic | None:
    """The first place where blocks or expressions are nested deeper than a program may be, if there is one.

    A chain such as `a + b + c` is as deep as it has operators, as its value is computed from the left.
    """
    stack: list[tuple[Tree[Token], int, int]] = [(tree, 0, 0)]
    while stack:
        node, blocks, depth = stack.pop()
        if node.data == "block":
            blocks, depth = blocks + 1, 0
        if node.data in _CHAINS:
            depth += len(node.children) // 2
        elif node.data in _OTHERS:
            depth += 1
        if blocks > MAX_DEPTH or depth > MAX_DEPTH:
            what = "blocks" if blocks > MAX_DEPTH else "expressions"
            span = Span(node.meta.start_pos, node.meta.end_pos)
            return Diagnostic(
                "E108",
                f"{what} are nested more than {MAX_DEPTH} deep",
                source,
                span,
                help="name the parts with `def`",
            )
        stack.extend((child, blocks, depth) for child in node.children if isinstance(child, Tree))
    return None
