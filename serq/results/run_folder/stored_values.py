"""Numbers that stand in part files: read part by part as often as needed, never all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import ge
from typing import TYPE_CHECKING, Any, Final

from serq.results.statistics import Squares, batch_counts, total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Chunk = NDArray[Any]

_DIGIT: Final = 16
"""Bits of a key that one pass over the numbers decides."""


_KEPT: Final = 1 << 20
"""Numbers of a column that are kept once they were read: 8 MiB."""


class StoredValues:
    """A column of numbers in its order: ``read(i)`` gives the floats of its part number i.

    Of every part those from ``bounds[i][0]`` to before ``bounds[i][1]`` belong to it.
    """

    def __init__(self, read: Callable[[int], Chunk], bounds: Sequence[tuple[int, int]]) -> None:
        self._read = read
        self._bounds = bounds
        self._count = sum(stop - start for start, stop in bounds)

    @classmethod
    def of(cls, read: Callable[[int], Chunk], parts: int) -> StoredValues:
        """All numbers of the first ``parts`` parts, which are read once to know how many there are.

        The first :data:`_KEPT` numbers stay in memory, so that they are not read again.
        """
        kept: dict[int, Chunk] = {}
        bounds, room = [], _KEPT
        for part in range(parts):
            chunk = read(part)
            bounds.append((0, len(chunk)))
            if len(chunk) <= room:
                kept[part] = chunk
                room -= len(chunk)
        return cls(lambda part: kept[part] if part in kept else read(part), bounds)

    def _chunks(self) -> Iterator[Chunk]:
        for part, (start, stop) in enumerate(self._bounds):
            if start < stop:
                yield self._read(part)[start:stop]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[float]:
        for chunk in self._chunks():
            yield from chunk.tolist()

    def part(self, start: int, stop: int) -> StoredValues:
        """Those from number ``start`` to before ``stop``."""
        before, bounds = 0, []
        for first, last in self._bounds:
            bounds.append((max(first, first + start - before), min(last, first + stop - before)))
            before += last - first
        return StoredValues(self._read, [(low, max(low, high)) for low, high in bounds])

    def total(self) -> float:
        """Their sum, as :func:`serq.results.statistics.total` has it."""
        return total(self)

    def total_of_squares(self, centre: float) -> float:
        """The sum of their squared deviations from ``centre``, each rounded, likewise."""
        return total(Squares(self, centre))

    def counts_up_to(self, at: float) -> list[int]:
        """How many are at most ``at``, as :func:`batch_counts` counts them."""
        return batch_counts(map(ge, repeat(at), self), len(self))

    def at(self, place: int) -> float:
        """The number at a place."""
        return next(iter(self.part(place, place + 1)))

    def at_ranks(self, ranks: Sequence[int]) -> list[float]:
        """The numbers that would stand at ``ranks``, from 0, if all were sorted, NaN last.

        Four passes, each of which decides 16 bits of the answers by counting.
        """
        import numpy

        found = [0] * len(ranks)
        left = list(ranks)
        for shift in range(64 - _DIGIT, -1, -_DIGIT):
            counts = [numpy.zeros(2**_DIGIT, dtype=numpy.int64) for _ in ranks]
            for chunk in self._chunks():
                keys = _sortable(chunk)
                digits = ((keys >> numpy.uint64(shift)) & numpy.uint64(2**_DIGIT - 1)).astype(numpy.int64)
                upper = keys >> numpy.uint64(shift + _DIGIT) if shift + _DIGIT < 64 else keys * 0
                for which, prefix in enumerate(found):
                    mine = digits[upper == numpy.uint64(prefix)]
                    counts[which] += numpy.bincount(mine, minlength=2**_DIGIT)
            for which, count in enumerate(counts):
                below = numpy.cumsum(count)
                digit = int(numpy.searchsorted(below, left[which], side="right"))
                left[which] -= int(below[digit - 1]) if digit else 0
                found[which] = (found[which] << _DIGIT) | digit
        return [_number(key) for key in found]


def _sortable(chunk: Chunk) -> Chunk:
    """Unsigned integers in the order of the floats ``chunk``; every NaN is the largest."""
    import numpy

    floats = numpy.where(numpy.isnan(chunk), numpy.nan, chunk).astype(numpy.float64)
    bits = floats.view(numpy.uint64)
    sign = numpy.uint64(2**63)
    return numpy.where(bits & sign, ~bits, bits | sign)


def _number(key: int) -> float:
    import struct

    bits = key ^ 2**63 if key >> 63 else key ^ (2**64 - 1)
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
