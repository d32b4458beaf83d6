"""Stretches of time as whole numbers of ticks, so that the parts of a latency add up to it exactly."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=Enum)


class Ticks:
    """Instants as multiples of the largest power of two that divides all of those it was made for."""

    def __init__(self, instants: Iterable[float]) -> None:
        self._shift = max((time.as_integer_ratio()[1].bit_length() - 1 for time in instants), default=0)

    def of(self, time: float) -> int:
        """An instant, exactly."""
        numerator, denominator = time.as_integer_ratio()
        return numerator << (self._shift + 1 - denominator.bit_length())

    def seconds(self, ticks: int) -> float:
        """The float next to so many ticks; for a difference of two floats that is their difference."""
        return ticks / (1 << self._shift)


class Phases(Generic[Kind]):
    """What held when: ``kinds[i]`` from ``begins[i]`` ticks on, the last for ever, the first since ever."""

    def __init__(self, begins: Sequence[int], kinds: Sequence[Kind]) -> None:
        self._begins = begins
        self._kinds = kinds
        self._sums: dict[Kind, list[int]] = {kind: [0] for kind in dict.fromkeys(kinds)}
        for place in range(1, len(begins)):
            lasted = begins[place] - begins[place - 1]
            for kind, sums in self._sums.items():
                sums.append(sums[-1] + (lasted if kinds[place - 1] is kind else 0))

    def split(self, begin: int, end: int) -> dict[Kind, int]:
        """How many of the ticks from ``begin`` to ``end`` each kind held."""
        return {kind: self._until(end, kind) - self._until(begin, kind) for kind in self._sums}

    def _until(self, time: int, kind: Kind) -> int:
        place = max(0, bisect_right(self._begins, time) - 1)
        lasted = time - self._begins[place] if self._kinds[place] is kind else 0
        return self._sums[kind][place] + lasted
