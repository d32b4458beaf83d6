"""The numbers that a statement `request` says: all are whole."""

from __future__ import annotations

from math import inf
from typing import Final

from serq.errors import RunError
from serq.runtime.serving.identity import Prefix

_TOO_LARGE: Final = 2.0**53
"""From here on not every whole number is a float."""


def prefix_of(written: tuple[float, float] | None) -> Prefix | None:
    """The text with which a prompt begins, and how many tokens of it; None: the clause is not written."""
    return None if written is None else (written[0], whole(written[1], "tokens of `prefix`"))


def asked_lengths(
    output_tokens: float, min_tokens: float, max_tokens: float | None
) -> tuple[int, int, int | None]:
    """(`min_tokens`, the length at which the model would stop, `max_tokens` where it is written)."""
    lowest = whole(min_tokens, "`min_tokens`") if min_tokens else 0
    length = max(whole(output_tokens, "output tokens", lowest=1), lowest)
    limit = None if max_tokens is None else whole(max_tokens, "`max_tokens`", lowest=1)
    return lowest, length, limit


def whole(value: float, what: str, lowest: float = 0) -> int:
    """``value`` as the whole number that it must be. Raises RunError otherwise."""
    if -inf < value < _TOO_LARGE and value >= lowest:
        number = int(value)
        if number == value:
            return number
    least = "" if lowest == -inf else f", at least {lowest:.10g}"
    raise RunError(f"{what}: {value:.10g} is not a whole number{least}", code="not-whole")
