"""Chains: `a + b - c`, `p && q && r` and `c ? a : d ? b : e`, however long, without recursion.

A chain of operations leans to the left and a chain of arms to the right, so both are as deep as they are
long. Whatever walks expressions goes along a chain in a loop; its own recursion is as deep as a program is
nested (``serq.ir.limits``).
"""

from __future__ import annotations

from typing import Final

from serq.ir.expressions import Binary, Conditional, Expr

_RANKS: Final = {"||": 1, "&&": 2, "+": 3, "-": 3, "*": 4, "/": 4}


def operations(node: Binary) -> list[Binary]:
    """The operations that a node computes from the left, the first one first; their operators may be any."""
    chain = [node]
    while isinstance(chain[-1].left, Binary):
        chain.append(chain[-1].left)
    return chain[::-1]


def arms(node: Conditional) -> list[Conditional]:
    """The arms of a node in order; the last one holds what is taken where no condition is true."""
    chain = [node]
    while isinstance(chain[-1].otherwise, Conditional):
        chain.append(chain[-1].otherwise)
    return chain


def continuation(node: object) -> Expr | None:
    """The operand that goes on with the chain of a node, and so is not nested in it."""
    match node:
        case Binary(operator, Binary(inner) as left) if _RANKS.get(operator) == _RANKS.get(inner, 0):
            return left
        case Conditional(otherwise=Conditional() as otherwise):
            return otherwise
        case _:
            return None
