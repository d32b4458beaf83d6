"""The largest load at which something still holds, by doubling and bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Final

from serq.errors import UsageError

MOST_DOUBLINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a search found: it held at ``holds`` and did not at ``breaks``; None: no such load was met."""

    holds: float | None
    breaks: float | None


Holds = Callable[[float], bool | None]
"""Whether it holds at a load; None where nothing decides it, because hardly anything happens."""


def largest(
    holds: Holds,
    start: float,
    *,
    lowest: float | None = None,
    highest: float | None = None,
    tolerance: float = 0.01,
) -> Bounds:
    """Look for the largest load at which ``holds`` is true, to a relative ``tolerance``.

    From ``start`` the load is doubled while it holds, else halved until it does, at most 20 times and within
    [``lowest``, ``highest``]; then the gap is bisected geometrically. ``holds`` should be true up to some
    load and false beyond; where it is not, the result still has one load of each kind. Raises UsageError
    where nothing decides at ``start``.
    """
    low, high = _bracket(holds, start, lowest, highest)
    if low is None or high is None:
        return Bounds(low, high)
    while high > low * (1.0 + tolerance):
        middle = sqrt(low * high)
        if holds(middle):
            low = middle
        else:
            high = middle
    return Bounds(low, high)


def _bracket(
    holds: Holds, start: float, lowest: float | None, highest: float | None
) -> tuple[float | None, float | None]:
    load = start
    upwards = holds(load)
    if upwards is None:
        raise UsageError(f"at {start:g} nothing decides the objectives: start higher, or run longer")
    last, limit = load, highest if upwards else lowest
    for _ in range(MOST_DOUBLINGS):
        if limit is not None and (load >= limit if upwards else load <= limit):
            break
        load = load * 2.0 if upwards else load / 2.0
        if limit is not None:
            load = min(load, limit) if upwards else max(load, limit)
        held = holds(load)
        if held is None:
            break
        if held != upwards:
            return (last, load) if upwards else (load, last)
        last = load
    return (last, None) if upwards else (None, last)
