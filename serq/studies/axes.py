"""What a study varies: one axis a setting, written as people write ranges."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from serq.errors import UsageError

MOST_VALUES: Final = 100_000
FORMS: Final = "1,2,4 or 1:10:1 (first:last:step) or 1:64:*2 (first:last:*factor) or 1..10 (between)"


@dataclass(frozen=True, slots=True)
class Axis:
    """A `let` and the values it takes, each the text of a constant expression."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """A `let` that a random design draws uniformly from ``low`` to ``high``."""

    name: str
    low: float
    high: float


def parse_axis(text: str) -> Axis | Between:
    """The axis that ``NAME=VALUES`` describes. Raises UsageError for what is none."""
    name, equals, values = (part.strip() for part in text.partition("="))
    if not (name and equals and values):
        raise UsageError(f"{text!r} is no axis: write NAME=VALUES, with VALUES like {FORMS}")
    if ".." in values:
        return _between(name, values)
    if ":" in values:
        return Axis(name, _range(name, values))
    listed = tuple(value.strip() for value in _split(values))
    if not all(listed):
        raise UsageError(f"`{name}={values}`: a value is empty")
    return Axis(name, _without_repeats(name, listed))


def _split(values: str) -> list[str]:
    """The values between commas that stand in no parentheses: `min(1, 2), 3` are two."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(values):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(values[start:place])
            start = place + 1
    return [*parts, values[start:]]


def _without_repeats(name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    for place, value in enumerate(values):
        if value in values[:place]:
            raise UsageError(f"`{name}`: the value {value} stands twice")
    return values


def _number(name: str, text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise UsageError(f"`{name}`: {text.strip()!r} is not a number; an axis is like {FORMS}") from None
    if not number.is_finite():
        raise UsageError(f"`{name}`: {text.strip()} is not finite")
    return number


def _range(name: str, text: str) -> tuple[str, ...]:
    """The values of ``first:last:step``, in decimal: 0:1:0.1 holds 0.3, not 0.30000000000000004."""
    parts = text.split(":")
    if len(parts) != 3:
        raise UsageError(f"`{name}={text}`: a range has three parts; an axis is like {FORMS}")
    first, last = _number(name, parts[0]), _number(name, parts[1])
    factor = parts[2].strip()
    if factor.startswith("*"):
        return _geometric(name, first, last, _number(name, factor[1:]))
    step = _number(name, factor)
    if step == 0 or (last - first) * step < 0:
        raise UsageError(f"`{name}={text}`: steps of {step} do not lead from {first} to {last}")
    if (last - first) / step >= MOST_VALUES:
        raise UsageError(f"`{name}={text}`: more than {MOST_VALUES:,} values")
    count = int((last - first) / step) + 1
    return tuple(_plain(first + step * place) for place in range(count))


def _geometric(name: str, first: Decimal, last: Decimal, factor: Decimal) -> tuple[str, ...]:
    if not (first > 0 and last >= first and factor > 1):
        raise UsageError(
            f"`{name}={first}:{last}:*{factor}`: factors need 0 < first <= last and a factor above 1"
        )
    values: list[str] = []
    value = first
    while value <= last:
        values.append(_plain(value))
        value *= factor
        if len(values) > MOST_VALUES:
            raise UsageError(f"`{name}`: more than {MOST_VALUES:,} values")
    return tuple(values)


def _plain(number: Decimal) -> str:
    """The number as a program writes it: no exponent for whole ones, no trailing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _between(name: str, text: str) -> Between:
    parts = text.split("..")
    if len(parts) != 2:
        raise UsageError(f"`{name}={text}`: a span is written LOW..HIGH")
    low, high = (float(_number(name, part)) for part in parts)
    if not low < high:
        raise UsageError(f"`{name}={text}`: {low:g} is not below {high:g}")
    return Between(name, low, high)
