"""Measured points on a grid: exact where they were measured, linear between them, explicit beyond."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Literal, NamedTuple

from serq.errors import RunError
from serq.kernels.executor import Evidence, OutsideRange

Extrapolation = Literal["error", "nearest", "linear"]
"""Beyond the grid: stop the run, take the value at the border, or go on along the last cell."""


class Reading(NamedTuple):
    """A value read off a grid, and how good it is."""

    value: float
    evidence: Evidence
    outside: tuple[OutsideRange, ...] = ()


class Grid:
    """Values over the full product of what was measured on every axis."""

    def __init__(self, axes: Sequence[str], points: Mapping[tuple[float, ...], float]) -> None:
        """``points``: one value for every combination of the axis values. Raises ValueError otherwise."""
        self.axes = tuple(axes)
        self.ticks = tuple(sorted({point[i] for point in points}) for i in range(len(self.axes)))
        missing = next((point for point in product(*self.ticks) if point not in points), None)
        if missing is not None:
            where = ", ".join(f"{axis} {value:g}" for axis, value in zip(self.axes, missing, strict=True))
            raise ValueError(f"the points are no full grid: there is none at {where}")
        self._points = dict(points)

    def items(self) -> Iterable[tuple[tuple[float, ...], float]]:
        """The measured points and their values."""
        return self._points.items()

    def read(self, at: Sequence[float], policy: Extrapolation, what: str) -> Reading:
        """The value at a point; ``what`` names the operator. Raises RunError beyond the grid if told to."""
        key = tuple(at)
        exact = self._points.get(key)
        if exact is not None:
            return Reading(exact, Evidence.MEASURED)
        outside = tuple(
            OutsideRange(axis, value, ticks[0], ticks[-1])
            for axis, value, ticks in zip(self.axes, key, self.ticks, strict=True)
            if not ticks[0] <= value <= ticks[-1]
        )
        if outside and policy == "error":
            raise _beyond(what, outside[0])
        value = self._linear(key, clamp=policy == "nearest")
        if not outside:
            return Reading(value, Evidence.INTERPOLATED)
        return Reading(value, Evidence.EXTRAPOLATED, outside)

    def _linear(self, at: tuple[float, ...], clamp: bool) -> float:
        """The multilinear value; along the last cell beyond the grid, and never below nothing."""
        cells = [_cell(ticks, value, clamp) for ticks, value in zip(self.ticks, at, strict=True)]
        total = 0.0
        for corner in product(*cells):
            weight = 1.0
            for _, share in corner:
                weight *= share
            total += weight * self._points[tuple(tick for tick, _ in corner)]
        return max(total, 0.0)


def _cell(ticks: Sequence[float], value: float, clamp: bool) -> list[tuple[float, float]]:
    """The ticks around a value with their weights; one tick alone where it suffices."""
    if clamp:
        value = min(max(value, ticks[0]), ticks[-1])
    if len(ticks) == 1:
        return [(ticks[0], 1.0)]
    low = min(max(bisect_right(ticks, value) - 1, 0), len(ticks) - 2)
    left, right = ticks[low], ticks[low + 1]
    share = (value - left) / (right - left)
    return [(tick, weight) for tick, weight in ((left, 1.0 - share), (right, share)) if weight]


def _beyond(what: str, outside: OutsideRange) -> RunError:
    return RunError(
        f"`{what}` has no price at {outside.dimension} {outside.value:g}: "
        f"measured from {outside.low:g} to {outside.high:g}",
        code="not-measured",
    )
