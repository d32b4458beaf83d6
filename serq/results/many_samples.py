"""Very many samples in memory: numpy counts, ranks and adds them, and comes to the same to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import frexp, fsum, isnan, ldexp, nan
from typing import Final

import numpy
from numpy.typing import NDArray

from serq.results.statistics import BATCHES, total

_BLOCK: Final = 1 << 15
"""Samples that are added at a time: they stay in the cache of a processor."""

_HUGE: Final = 2.0**900
"""Where no sample is so large, no sum of samples overflows, nor does anything on the way to it."""


class ManySamples:
    """Samples in an array of doubles (:class:`serq.results.statistics.OrderedSamples`)."""

    def __init__(self, values: NDArray[numpy.float64]) -> None:
        self._values = values

    @classmethod
    def of(cls, values: Sequence[float]) -> ManySamples:
        """A copy of ``values``, all of which are floats."""
        return cls(numpy.array(values, dtype=numpy.float64))

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float]:
        return iter(self._values.tolist())

    def part(self, start: int, stop: int) -> ManySamples:
        """Those from number ``start`` to before ``stop``, in recording order."""
        return ManySamples(self._values[start:stop])

    def numbers(self) -> ManySamples:
        """Those that are not NaN."""
        return ManySamples(self._values[~numpy.isnan(self._values)])

    def at_ranks(self, ranks: Sequence[int]) -> list[float]:
        """Those at ``ranks``, from 0, if all were sorted, NaN last; equal ones in recording order."""
        values, wanted = self._values, list(ranks)
        found = numpy.partition(values, wanted)[wanted].tolist() if wanted else []
        if 0.0 not in found:
            return [nan if isnan(value) else value for value in found]
        zeros = values[values == 0.0].tolist()  # the only equal numbers that differ: by their sign
        below = int(numpy.count_nonzero(values < 0.0))
        return [
            zeros[rank - below] if value == 0.0 else nan if isnan(value) else value
            for rank, value in zip(wanted, found, strict=True)
        ]

    def counts_up_to(self, at: float) -> list[int]:
        """How many are at most ``at``, as :func:`serq.results.statistics.batch_counts` counts them."""
        within = self._values <= at
        whole = len(within) // BATCHES * BATCHES
        batches = numpy.count_nonzero(within[:whole].reshape(BATCHES, -1), axis=1) if whole else [0] * BATCHES
        return [*map(int, batches), int(numpy.count_nonzero(within[whole:]))]

    def total(self) -> float:
        """Their sum, as :func:`serq.results.statistics.total` has it."""
        values = self._values
        largest = float(max(values.max(), -values.min())) if len(values) else 0.0
        if isnan(largest):
            return nan
        if not 0.0 < largest < _HUGE:
            return total(self)
        blocks = (values[start : start + _BLOCK] for start in range(0, len(values), _BLOCK))
        return fsum(part for block in blocks for part in _exact_parts(block))

    def total_of_squares(self, centre: float) -> float:
        """The sum of their squared deviations from ``centre``, each rounded, likewise."""
        with numpy.errstate(over="ignore", invalid="ignore"):
            deviations = self._values - centre
            return ManySamples(deviations * deviations).total()


def _exact_parts(block: NDArray[numpy.float64]) -> Iterator[float]:
    """A few floats whose exact sum is that of ``block``, none of which is ``_HUGE`` or NaN.

    By error-free extraction (Rump, Ogita and Oishi, Accurate floating-point summation, 2008): adding a large
    enough power of two cuts from every number the bits above 2**-53 of it, and those add up without rounding
    in any order.
    """
    left = block
    while largest := max(left.max(), -left.min()):
        power = ldexp(1.0, frexp(largest)[1] + len(block).bit_length() + 1)
        upper = (left + power) - power
        yield float(upper.sum())
        left = left - upper
