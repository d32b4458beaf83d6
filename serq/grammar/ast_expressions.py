"""Expressions of the syntax tree, and the names and places that every node of it has."""

from __future__ import annotations

from typing import Literal

import msgspec

from serq.source import Place


class Node(msgspec.Struct, frozen=True):
    """The base of every node: its place in a text."""

    place: Place


class Identifier(Node, frozen=True):
    """A name as written."""

    text: str


class Reference(Node, frozen=True):
    """A pool or a stage, or a member of a family: ``kv`` or ``kv[e]``."""

    name: Identifier
    index: Expr | None = None


# --- expressions --------------------------------------------------------------------------------------------


class Number(Node, frozen=True):
    """A literal."""

    value: float


class Name(Node, frozen=True):
    """A bare name; the linker finds out what it means (R-A-005)."""

    text: str


class Parenthesised(Node, frozen=True):
    """``(e)``; kept because ``f((p))`` does not pass the pool ``p`` (R-A-010)."""

    inner: Expr


class Unary(Node, frozen=True):
    """``-e`` or ``!e``."""

    operator: Literal["-", "!"]
    operand: Expr


class Binary(Node, frozen=True):
    """Two operands and what stands between them."""

    operator: str
    left: Expr
    right: Expr


class Conditional(Node, frozen=True):
    """``c ? a : b``."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Draw(Node, frozen=True):
    """``~distribution(arguments)``."""

    distribution: Identifier
    arguments: tuple[Argument, ...]


class Call(Node, frozen=True):
    """``f(arguments)``: a function, a pool or stage function, or a def."""

    function: Identifier
    arguments: tuple[Argument, ...]


class Aggregate(Node, frozen=True):
    """``max j in n (e)``."""

    operator: Literal["max", "min", "sum"]
    variable: Identifier
    count: Expr
    body: Expr


Expr = Number | Name | Parenthesised | Unary | Binary | Conditional | Draw | Call | Aggregate
Argument = Expr | Reference
"""What stands between the parentheses of a call; only ``kv[e]`` is a Reference, a bare ``kv`` is a Name."""
