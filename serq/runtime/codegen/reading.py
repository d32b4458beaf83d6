"""What an expression reads, so that a run computes only what somebody reads."""

from __future__ import annotations

from collections.abc import Iterable

from serq.ir import nodes
from serq.ir.walk import descendants


def variables(expressions: Iterable[nodes.Expr | None]) -> frozenset[str]:
    """The context variables that any of ``expressions`` reads."""
    return frozenset(
        node.name
        for expr in expressions
        if expr is not None
        for node in descendants(expr)
        if isinstance(node, nodes.Variable)
    )


def draws(parts: Iterable[nodes.Node]) -> bool:
    """Whether any of ``parts`` draws a random number."""
    return any(isinstance(node, nodes.Draw) for part in parts for node in descendants(part))


def attributes_only(expressions: Iterable[nodes.Expr]) -> bool:
    """Whether ``expressions`` read nothing but attributes: they stand still while their session waits."""
    changing = nodes.PoolRead | nodes.StageRead | nodes.Reusable | nodes.Draw
    return not any(
        isinstance(node, changing) or (isinstance(node, nodes.Variable) and node.name != "inf")
        for expr in expressions
        for node in descendants(expr)
    )


def stands_alone(expr: nodes.Node) -> bool:
    """Whether ``expr`` reads nothing but what it is evaluated for and the clock, and draws nothing.

    That is the step for a cost, and the request for a key of a waiting queue.
    """
    other = nodes.PoolRead | nodes.StageRead | nodes.RequestRead | nodes.Reusable | nodes.Draw
    return not any(isinstance(node, other) for node in descendants(expr))


def reads_session(expressions: Iterable[nodes.Expr]) -> bool:
    """Whether ``expressions`` read an attribute."""
    return any(isinstance(node, nodes.Attribute) for expr in expressions for node in descendants(expr))
