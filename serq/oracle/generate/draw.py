"""Random choices from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Draw:
    """A stream of choices; the same seed text gives the same stream everywhere."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included; ``low`` if the range is empty."""
        return low + int(self._random.random() * max(high - low + 1, 1))

    def uniform(self, low: float, high: float) -> float:
        """A real number from the range."""
        return low + self._random.random() * (high - low)

    def pick(self, options: Sequence[_T]) -> _T:
        """One of the options, all equally likely."""
        return options[self.between(0, len(options) - 1)]

    def weighted(self, weights: Mapping[_T, float]) -> _T:
        """One of the keys, in proportion to its weight."""
        point = self._random.random() * sum(weights.values())
        for option, weight in weights.items():
            point -= weight
            if point < 0:
                return option
        return list(weights)[-1]

    def skewed(self, low: int, high: int) -> int:
        """A whole number from the range, small ones more often."""
        return low + int((high - low + 1) * self._random.random() ** 2.5)

    def near(self, step: int, high: int) -> int:
        """A number from 1 to ``high`` that often is a multiple of ``step`` or next to one."""
        if self.chance(0.5):
            return self.between(1, high)
        multiple = self.between(0, high // step) * step
        return min(max(multiple + self.pick((-1, 0, 0, 1)), 1), high)
