"""Means over independent replications with Student's intervals (Law, Simulation Modeling, 2015, ch. 9)."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from typing import Final, NamedTuple

_T_95: Final = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
_NORMAL_975: Final = 1.959964


def student_975(degrees: int) -> float:
    """The 97.5 % quantile of Student's t; above 30 degrees by Abramowitz and Stegun 26.7.5."""
    if degrees <= len(_T_95):
        return _T_95[degrees - 1]
    z = _NORMAL_975
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


class Interval(NamedTuple):
    """A mean and the half-width of its 95 % interval; None where they are not determined."""

    mean: float | None
    half_width: float | None


def interval(values: Sequence[float]) -> Interval:
    """The mean of one value or more, and its interval from two on."""
    count = len(values)
    mean = fsum(values) / count
    if count < 2:
        return Interval(mean, None)
    variance = fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Interval(mean, student_975(count - 1) * sqrt(variance / count))


def paired_change(before: Sequence[float], after: Sequence[float]) -> Interval:
    """By how much ``after`` is more than ``before``, relative, in pairs that saw the same seed.

    What both runs of a pair owe to their draws cancels, so the interval is far narrower than that of a
    difference of means (common random numbers; Law, ch. 11.2). Raises ValueError where one lacks its partner.
    """
    return interval([new / old - 1.0 for old, new in zip(before, after, strict=True)])
