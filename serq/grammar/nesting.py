"""The depth of a program, measured before anything walks it."""

from __future__ import annotations

from typing import Final

from lark import Token, Tree

from serq.ir.limits import MAX_CHAIN, MAX_DEPTH
from serq.source import Diagnostic, SourceFile, Span

_CHAINS: Final = frozenset({"or_", "and_", "add", "mul"})
_LEVELS: Final = _CHAINS | {
    *("conditional", "comparison", "prefixed", "power", "parenthesised", "draw", "call", "aggregate")
}


def too_deep(source: SourceFile, tree: Tree[Token]) -> Diagnostic | None:
    """The first place where blocks or expressions are nested deeper than a program may be, if there is one.

    A chain such as `a + b + c` or `c ? a : d ? b : e` is one level, but no longer than ``MAX_CHAIN``.
    """
    stack: list[tuple[Tree[Token], int, int, int]] = [(tree, 0, 0, 0)]
    while stack:
        node, blocks, depth, arms = stack.pop()
        if node.data == "block":
            blocks, depth = blocks + 1, 0
        depth += node.data in _LEVELS and not arms
        terms = len(node.children) // 2 + 1 if node.data in _CHAINS else arms + 2
        if blocks > MAX_DEPTH or depth > MAX_DEPTH:
            what = "blocks" if blocks > MAX_DEPTH else "expressions"
            message = f"{what} are nested more than {MAX_DEPTH} deep"
            return _refused(source, node, message, "name the parts with `def`")
        if terms > MAX_CHAIN:
            message = f"this chain has more than {MAX_CHAIN} terms"
            return _refused(source, node, message, "put a part of it between parentheses")
        for child in node.children:
            if isinstance(child, Tree):
                is_arm = node.data == child.data == "conditional" and child is node.children[-1]
                stack.append((child, blocks, depth, arms + 1 if is_arm else 0))
    return None


def _refused(source: SourceFile, node: Tree[Token], message: str, help_: str) -> Diagnostic:
    span = Span(node.meta.start_pos, node.meta.end_pos)
    return Diagnostic("E108", message, source, span, help=help_)
