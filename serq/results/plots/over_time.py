"""Step tables as averages over equal slices of time, so that a million steps are a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, nan

from serq.runtime.request_records import EngineRow

SLICES = 200


@dataclass(frozen=True, slots=True)
class Slices:
    """``count`` equal slices of [start, end]; ``width`` seconds each."""

    start: float
    end: float
    count: int = SLICES

    @property
    def width(self) -> float:
        """The length of a slice."""
        return (self.end - self.start) / self.count

    def middles(self) -> list[float]:
        """The middle of each."""
        return [self.start + (place + 0.5) * self.width for place in range(self.count)]

    def average(
        self, starts: Sequence[float], ends: Sequence[float], values: Sequence[float], *, idle: float = nan
    ) -> list[float]:
        """The mean of ``values[i]``, which holds from ``starts[i]`` to ``ends[i]``, weighted by time.

        ``idle`` is the mean of a slice that no span touches; one that is touched averages over that part.
        """
        sums, weights = [0.0] * self.count, [0.0] * self.count
        for start, end, value in zip(starts, ends, values, strict=True):
            for place, seconds in self._overlaps(start, end):
                sums[place] += seconds * value
                weights[place] += seconds
        return [total / weight if weight else idle for total, weight in zip(sums, weights, strict=True)]

    def total(self, starts: Sequence[float], ends: Sequence[float], amounts: Sequence[float]) -> list[float]:
        """The amount a second in each slice, where ``amounts[i]`` is spread evenly over its span."""
        sums = [0.0] * self.count
        for start, end, amount in zip(starts, ends, amounts, strict=True):
            for place, seconds in self._overlaps(start, end):
                sums[place] += amount * seconds / (end - start)
        return [total / self.width for total in sums]

    def _overlaps(self, start: float, end: float) -> list[tuple[int, float]]:
        """The slices that a span touches, and for how many seconds."""
        start, end = max(start, self.start), min(end, self.end)
        if not end > start or not self.width > 0:
            return []
        first = min(self.count - 1, floor((start - self.start) / self.width))
        last = min(self.count, max(first + 1, ceil((end - self.start) / self.width)))
        found = []
        for place in range(first, last):
            low, high = self.start + place * self.width, self.start + (place + 1) * self.width
            seconds = min(end, high) - max(start, low)
            if seconds > 0:
                found.append((place, seconds))
        return found


def slices_of(engines: Sequence[EngineRow]) -> Slices:
    """From time 0 to the last end of a step."""
    return Slices(0.0, max((engine.table.end[-1] for engine in engines if len(engine.table)), default=1.0))


def spans(engine: EngineRow) -> tuple[Sequence[float], list[float]]:
    """From when to when what was decided holds: from the forming of a step to that of the next."""
    formed = engine.table.formed
    return formed, [*formed[1:], engine.table.end[-1]] if len(formed) else []
