"""Which points a study runs: every combination of its axes, or a random sample of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor
from random import Random
from typing import Final

from serq.errors import UsageError
from serq.studies.axes import Axis, Between

MOST_POINTS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of the program: ``index`` from 0 in order of the design, ``sets`` the `let`s it gives."""

    index: int
    sets: Mapping[str, str]


def grid(axes: Sequence[Axis | Between]) -> list[Point]:
    """Every combination; the last axis varies fastest. Raises UsageError for a span, which has no values."""
    _check_names(axes)
    values: list[tuple[str, ...]] = []
    size = 1
    for axis in axes:
        if isinstance(axis, Between):
            raise UsageError(
                f"`{axis.name}={axis.low:g}..{axis.high:g}` has no steps: "
                "give them (first:last:step), or draw points with `--random N`"
            )
        values.append(axis.values)
        size *= len(axis.values)
    if size > MOST_POINTS:
        raise UsageError(f"a grid of {size:,} points: {MOST_POINTS:,} are the most")
    names = [axis.name for axis in axes]
    return [
        Point(index, dict(zip(names, chosen, strict=True))) for index, chosen in enumerate(product(*values))
    ]


def latin_hypercube(axes: Sequence[Axis | Between], points: int, seed: int) -> list[Point]:
    """``points`` random points whose values are spread evenly along every axis (McKay et al., 1979).

    Along each axis the unit interval is cut into ``points`` strips and every strip is used once; a span maps
    the interval to [low, high), an axis of values to its values. The same seed gives the same points.
    """
    _check_names(axes)
    if not 1 <= points <= MOST_POINTS:
        raise UsageError(f"{points} random points: there must be 1 to {MOST_POINTS:,}")
    random = Random(seed)  # its `random()` is promised to stay the same on every Python
    columns = [_column(axis, points, random) for axis in axes]
    names = [axis.name for axis in axes]
    return [
        Point(index, dict(zip(names, row, strict=True)))
        for index, row in enumerate(zip(*columns, strict=True) if columns else [()] * points)
    ]


def _column(axis: Axis | Between, points: int, random: Random) -> list[str]:
    order = sorted((random.random(), strip) for strip in range(points))
    column = []
    for _, strip in order:
        position = (strip + random.random()) / points
        if isinstance(axis, Between):
            column.append(repr(axis.low + (axis.high - axis.low) * position))
        else:
            column.append(axis.values[min(floor(position * len(axis.values)), len(axis.values) - 1)])
    return column


def _check_names(axes: Sequence[Axis | Between]) -> None:
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"`{name}` has two axes")
