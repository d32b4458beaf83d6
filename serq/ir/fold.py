"""The value of an expression that does not depend on the run (R-A-008, R-A-025)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

from serq.ir import arithmetic
from serq.ir.chains import operations
from serq.ir.expressions import ARITIES
from serq.ir.nodes import (
    Aggregate,
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Expr,
    Local,
    Number,
    Unary,
)

MAX_TERMS: Final = 10_000
"""Terms of an aggregate that are combined beforehand; longer and nested ones are left to the run."""

OPERATORS: Final[Mapping[BinaryOperator, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": arithmetic.divide,
    "^": arithmetic.power,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
"""What computes an operator that always evaluates both its operands; comparisons give 0 or 1 (R-A-022)."""

Locals = Mapping[str, float]
_NOTHING: Final[Locals] = {}


def constant(expression: Expr, bound: Locals = _NOTHING) -> float | None:
    """The value, which may be infinite or NaN; None where it depends on the run, or cannot be.

    ``bound`` holds the indices of aggregates around the expression. Sides that `&&`, `||` and `?:` do
    not take may depend on the run (R-A-024).
    """
    while isinstance(expression, Conditional):
        condition = constant(expression.condition, bound)
        if condition is None:
            return None
        expression = expression.then if arithmetic.truth(condition) else expression.otherwise
    match expression:
        case Number():
            return expression.value
        case Local():
            return bound.get(expression.name)
        case Unary():
            return _unary(expression, bound)
        case Binary():
            return _binary(expression, bound)
        case Call():
            values = [constant(argument, bound) for argument in expression.arguments]
            known = [value for value in values if value is not None]
            complete = len(known) == len(values) == ARITIES[expression.function]
            return arithmetic.FUNCTIONS[expression.function](*known) if complete else None
        case Aggregate():
            return _aggregate(expression, bound)
        case _:
            return None


def _unary(expression: Unary, bound: Locals) -> float | None:
    value = constant(expression.operand, bound)
    if value is None:
        return None
    return -value if expression.operator == "-" else float(not arithmetic.truth(value))


def _binary(expression: Binary, bound: Locals) -> float | None:
    chain = operations(expression)
    value = constant(chain[0].left, bound)
    for node in chain:
        if value is None:
            return None
        value = _operation(node, value, bound)
    return value


def _operation(expression: Binary, left: float, bound: Locals) -> float | None:
    """The value of an operation whose left operand is known."""
    if expression.operator in ("&&", "||"):
        if arithmetic.truth(left) == (expression.operator == "||"):
            return float(arithmetic.truth(left))
        right = constant(expression.right, bound)
        return None if right is None else float(arithmetic.truth(right))
    right = constant(expression.right, bound)
    return None if right is None else float(OPERATORS[expression.operator](left, right))


def _aggregate(expression: Aggregate, bound: Locals) -> float | None:
    count = None if bound else constant(expression.count)
    if count is None or not (1 <= count <= MAX_TERMS and count == int(count)):
        return None
    values = []
    for index in range(int(count)):
        value = constant(expression.body, {expression.variable: float(index)})
        if value is None:
            return None
        values.append(value)
    result = values[0]
    combine = _COMBINE[expression.operator]
    for value in values[1:]:
        result = combine(result, value)
    return result


_COMBINE: Final[Mapping[str, Callable[[float, float], float]]] = {
    "max": arithmetic.maximum,
    "min": arithmetic.minimum,
    "sum": operator.add,
}
