"""What the generated code calls: the checks and small loops that the language prescribes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan
from typing import Final

from serq.errors import RunError
from serq.ir.arithmetic import maximum, minimum

_LARGEST_COUNT: Final = 1_000_000


def member_index(value: float, count: int, what: str) -> int:
    """The member that a computed index means: truncated, negative and NaN read as 0 (R-A-031, R-B-017).

    Raises RunError from ``count`` on.
    """
    if value >= count:
        raise RunError(
            f"{what} has {count} member(s): there is no index {value:.10g}", code="index-out-of-range"
        )
    return int(value) if value >= 1.0 else 0


def guard(value: float) -> bool:
    """A branch condition; raises RunError for anything but 0 and 1 (R-A-095, R-B-121)."""
    if value == 1.0:
        return True
    if value == 0.0:
        return False
    raise RunError(f"the condition of `branch` is {value:.10g}: it must be 0 or 1", code="guard-not-boolean")


def whole_count(value: float) -> int:
    """The number of candidates of `choose` or of an aggregate; negative counts as 0 (R-A-097).

    Raises RunError when it is not a whole number, or above a million.
    """
    if isnan(value) or (value > 0.0 and value % 1.0 != 0.0):
        raise RunError(f"the count is {value:.10g}: it must be a whole number", code="count-not-whole")
    if value > _LARGEST_COUNT:
        raise RunError(
            f"the count is {value:.10g}: at most {_LARGEST_COUNT} are possible", code="count-too-large"
        )
    return int(value) if value > 0.0 else 0


def precedes(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    """Whether ``left`` is lexicographically less by ordinary `<`; a NaN decides against (R-A-097)."""
    for a, b in zip(left, right, strict=True):
        if a < b:
            return True
        if a != b:
            return False
    return False


def aggregate_sum(count: float, term: Callable[[float], float]) -> float:
    """`sum j in count (term)`, added in the order of j."""
    total = 0.0
    for j in range(whole_count(count)):
        total += term(float(j))
    return total


def aggregate_max(count: float, term: Callable[[float], float]) -> float:
    """`max j in count (term)`; -inf for no candidate."""
    largest = -inf
    for j in range(whole_count(count)):
        largest = maximum(largest, term(float(j)))
    return largest


def aggregate_min(count: float, term: Callable[[float], float]) -> float:
    """`min j in count (term)`; inf for no candidate."""
    smallest = inf
    for j in range(whole_count(count)):
        smallest = minimum(smallest, term(float(j)))
    return smallest
