"""Looking up a measured quantity along one axis: linear between points, clamped below, extended above."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from serq.kernels.executor import Evidence, OutsideRange

GRADES = tuple(Evidence)
"""Evidence by grade: while a look-up goes on evidence is a number, so that the weakest is ``max``."""

MEASURED, INTERPOLATED, FITTED, EXTRAPOLATED = (
    GRADES.index(evidence)
    for evidence in (Evidence.MEASURED, Evidence.INTERPOLATED, Evidence.FITTED, Evidence.EXTRAPOLATED)
)


class Spot(NamedTuple):
    """A place on an axis: ``weight`` of the way from point ``point`` to the next, above 1 beyond the last."""

    point: int
    weight: float
    grade: int


def locate(axis: Sequence[float], at: float) -> Spot:
    """Where ``at`` lies on the ascending ``axis``.

    Below the first point the first one counts; beyond the last the line through the last two goes on.
    """
    place = bisect_right(axis, at) - 1
    if place < 0:
        return Spot(0, 0.0, EXTRAPOLATED)
    low = axis[place]
    if low == at:
        return Spot(place, 0.0, MEASURED)
    if place < len(axis) - 1:
        return Spot(place, (at - low) / (axis[place + 1] - low), INTERPOLATED)
    if place == 0:
        return Spot(0, 0.0, EXTRAPOLATED)
    before = axis[place - 1]
    return Spot(place - 1, (at - before) / (low - before), EXTRAPOLATED)


def outside(dimension: str, axis: Sequence[float], at: float) -> tuple[OutsideRange, ...]:
    """Nothing, or how ``at`` lies outside the measured ``axis``."""
    if axis[0] <= at <= axis[-1]:
        return ()
    return (OutsideRange(dimension, at, axis[0], axis[-1]),)


class Curve:
    """A quantity measured at points of one axis. A time that the extension takes below 0 counts as 0."""

    __slots__ = ("_axis", "_values")

    def __init__(self, points: Mapping[float, float]) -> None:
        self._axis = tuple(sorted(points))
        self._values = tuple(points[at] for at in self._axis)

    @property
    def axis(self) -> tuple[float, ...]:
        """The measured points."""
        return self._axis

    def at(self, at: float) -> tuple[float, int]:
        """The value at ``at``, and the grade of its evidence."""
        index, weight, grade = locate(self._axis, at)
        low = self._values[index]
        if not weight:
            return low, grade
        return max(low + weight * (self._values[index + 1] - low), 0.0), grade
