"""The arithmetic of the language: IEEE doubles throughout, so nothing here raises (R-A-025).

Folding constants and running a program use these same functions: a `let` and an attribute of the same
expression hold the same bits. Addition, subtraction, multiplication and comparison are Python's own.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Final

from serq.ir.nodes import Function

INDEFINITE: Final = math.copysign(nan, -1.0)
"""What an operation without a value gives: NaN with the sign bit, as on x86 (R-A-066 orders by it)."""


def divide(left: float, right: float) -> float:
    """`left / right`: x/0 is infinite with the sign of both, 0/0 is NaN."""
    try:
        return left / right
    except ZeroDivisionError:
        if math.isnan(left) or left == 0.0:
            return INDEFINITE
        return math.copysign(inf, left) * math.copysign(1.0, right)


def power(base: float, exponent: float) -> float:
    """`base ^ exponent`: a negative base with a fractional exponent is NaN, overflow is infinite."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -inf if base < 0.0 and exponent % 2.0 == 1.0 else inf
    except ValueError:
        if base == 0.0:
            odd = exponent % 2.0 == 1.0
            return math.copysign(inf, base) if odd else inf
        return INDEFINITE


def minimum(left: float, right: float) -> float:
    """`min(left, right)`: the other operand where one is NaN."""
    if left < right or math.isnan(right):
        return left
    return right


def maximum(left: float, right: float) -> float:
    """`max(left, right)`: the other operand where one is NaN."""
    if left > right or math.isnan(right):
        return left
    return right


def floor(value: float) -> float:
    """The largest whole number not above; infinities, NaN and -0 stay."""
    if not math.isfinite(value) or value == 0.0:
        return value
    return float(math.floor(value))


def ceil(value: float) -> float:
    """The smallest whole number not below; infinities, NaN and -0 stay, and (-1, 0) gives -0."""
    if not math.isfinite(value) or value == 0.0:
        return value
    return math.copysign(float(math.ceil(value)), value)


def sqrt(value: float) -> float:
    """The square root, NaN below zero."""
    return math.sqrt(value) if value >= 0.0 else INDEFINITE


def exp(value: float) -> float:
    """The exponential; overflow is infinite."""
    try:
        return math.exp(value)
    except OverflowError:
        return inf


def ln(value: float) -> float:
    """The natural logarithm: -inf at zero, NaN below."""
    if value > 0.0:
        return math.log(value)
    return -inf if value == 0.0 else INDEFINITE


_as_bytes = struct.Struct("<d").pack
_as_bits = struct.Struct("<q").unpack
_ALL_BUT_SIGN: Final = (1 << 63) - 1

FUNCTIONS: Final[Mapping[Function, Callable[..., float]]] = {
    "min": minimum,
    "max": maximum,
    "pow": power,
    "abs": abs,
    "floor": floor,
    "ceil": ceil,
    "sqrt": sqrt,
    "exp": exp,
    "ln": ln,
}
"""Function of the language -> what computes it."""


def total_order(value: float) -> int:
    """A whole number that orders as IEEE's total order does: -NaN, -inf .. -0, 0 .. inf, NaN (R-A-066)."""
    bits: int = _as_bits(_as_bytes(value))[0]
    return bits if bits >= 0 else bits ^ _ALL_BUT_SIGN


def truth(value: float) -> bool:
    """Whether a condition holds: anything but zero does, NaN included (R-A-023)."""
    return value != 0.0
