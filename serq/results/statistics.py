"""What a report says about a series of samples. Pure Python but for very many: `serq run` needs no numpy."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, filterfalse, islice
from math import ceil, floor, fsum, inf, isfinite, isnan, nan, sqrt
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from serq.results.many_samples import ManySamples

BATCHES: Final = 20
STUDENT_T: Final = 2.093
"""The 97.5 % quantile of Student's t with 19 degrees of freedom, for a two-sided 95 % interval."""


MEDIAN: Final = (1, 2)
P99: Final = (99, 100)


class Samples(Protocol):
    """Numbers in recording order, in memory or not; they can be gone through any number of times."""

    def __len__(self) -> int:
        """How many there are."""

    def __iter__(self) -> Iterator[float]:
        """From the first to the last."""


class OrderedSamples(Samples, Protocol):
    """Numbers that know which of them are the smallest, and so on."""

    def at_ranks(self, ranks: Sequence[int]) -> list[float]:
        """Those at ``ranks``, from 0, if all were sorted, NaN last."""

    def counts_up_to(self, at: float) -> list[int]:
        """How many are at most ``at``, as :func:`batch_counts` counts them."""

    def part(self, start: int, stop: int) -> OrderedSamples:
        """Those from number ``start`` to before ``stop``, in recording order."""

    def total(self) -> float:
        """Their sum, as :func:`total` has it."""

    def total_of_squares(self, centre: float) -> float:
        """The sum of their squared deviations from ``centre``, each rounded, as :func:`total` has it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one observation; a figure that the samples do not determine is NaN."""

    count: int
    mean: float
    ci: float
    """Half-width of the 95 % confidence interval of the mean, by batch means; infinite below 40 samples."""
    cv2: float
    """Squared coefficient of variation."""
    p99: float
    smallest: float
    largest: float
    p50: float = nan
    p50_low: float = nan
    p50_high: float = nan
    p99_low: float = nan
    p99_high: float = nan
    """95 % intervals of the quantiles, as :func:`quantile_interval` has them; NaN: that side is open."""


@dataclass(slots=True)
class InMemory:
    """Samples in a list, which are sorted once: batch by batch, then all of them, which takes no longer."""

    values: Sequence[float]
    _batches: list[list[float]] | None = None
    _ordered: list[float] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)

    def at_ranks(self, ranks: Sequence[int]) -> list[float]:
        """Those at ``ranks``, from 0, if all were sorted, NaN last."""
        ordered = self._ordered
        if ordered is None:
            numbers = sorted(chain.from_iterable(self._sorted_batches()))
            ordered = self._ordered = numbers + [nan] * (len(self.values) - len(numbers))
        return [ordered[rank] for rank in ranks]

    def counts_up_to(self, at: float) -> list[int]:
        """How many are at most ``at``, as :func:`batch_counts` counts them."""
        if isnan(at):
            return [0] * (BATCHES + 1)
        return [bisect_right(batch, at) for batch in self._sorted_batches()]

    def _sorted_batches(self) -> list[list[float]]:
        """The numbers of every batch in order, then those that fill none; NaN left out."""
        if self._batches is None:
            size, left = len(self.values) // BATCHES, iter(self.values)
            parts = [*(islice(left, size) for _ in range(BATCHES)), left]
            self._batches = [sorted(filterfalse(isnan, part)) for part in parts]
        return self._batches

    def part(self, start: int, stop: int) -> InMemory:
        """Those from number ``start`` to before ``stop``, in recording order."""
        return InMemory(self.values[start:stop])

    def numbers(self) -> InMemory:
        """Those that are not NaN."""
        return InMemory(list(filterfalse(isnan, self.values)))

    def total(self) -> float:
        """Their sum, as :func:`total` has it."""
        return total(self.values)

    def total_of_squares(self, centre: float) -> float:
        """The sum of their squared deviations from ``centre``, each rounded, as :func:`total` has it."""
        return total(Squares(self.values, centre))


MANY: Final = 200_000
"""Samples from which on numpy saves more time than importing it takes, even for one series."""


def in_memory(values: Sequence[float]) -> InMemory | ManySamples:
    """``values`` as samples, which numpy counts, ranks and adds where they are very many and all floats."""
    if len(values) < MANY or not _are_floats(values):
        return InMemory(values)
    from serq.results.many_samples import ManySamples  # imports numpy

    return ManySamples.of(values)


def _are_floats(values: Sequence[float]) -> bool:
    """Whether there are no integers among them, which would become floats."""
    return values.typecode == "d" if isinstance(values, array) else set(map(type, values)) == {float}


def summarize(values: Sequence[float]) -> Summary:
    """The figures of ``values``, which are in recording order (R-B-115 to R-B-117)."""
    return summarize_samples(in_memory(values))


def summarize_samples(values: OrderedSamples) -> Summary:
    """The figures of ``values``, wherever they are (R-B-115 to R-B-117)."""
    count = len(values)
    if not count:
        return Summary(0, nan, inf, nan, nan, nan, nan)
    ranks = [rank(MEDIAN, count), rank(P99, count), 0, count - 1]
    p50, p99, smallest, largest = values.at_ranks(ranks)
    p50_low, p50_high = quantile_interval(values, MEDIAN, p50)
    p99_low, p99_high = quantile_interval(values, P99, p99)
    return Summary(
        count=count,
        mean=mean_of(values),
        ci=confidence(values),
        cv2=squared_variation(values),
        p99=p99,
        smallest=smallest,
        largest=largest,
        p50=p50,
        p50_low=p50_low,
        p50_high=p50_high,
        p99_low=p99_low,
        p99_high=p99_high,
    )


def quantile(values: Sequence[float], share: tuple[int, int]) -> float:
    """The smallest sample that at least ``share`` of all stay within; NaN where there are none (R-B-117).

    ``share`` is a fraction, so that 55 % of 100 samples are 55 and not 55.00000000000001. NaN counts as
    largest.
    """
    return in_memory(values).at_ranks([rank(share, len(values))])[0] if values else nan


def rank(share: tuple[int, int], count: int) -> int:
    """The place, from 0, of a quantile among ``count`` samples in order."""
    return max(1, -(-share[0] * count // share[1])) - 1


def share_interval(within: Sequence[bool]) -> tuple[float, float]:
    """The 95 % interval of the share of samples that are true, which are in recording order.

    Wilson's interval for as many independent samples as these are worth. NaN below 40 samples.
    """
    size = len(within) // BATCHES
    if size < 2:
        return nan, nan
    share = sum(within) / len(within)
    worth = _independent(batch_counts(within, len(within)), len(within))
    spread = STUDENT_T * STUDENT_T / worth
    centre = (share + spread / 2) / (1 + spread)
    half = sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def quantile_interval(values: OrderedSamples, share: tuple[int, int], at: float) -> tuple[float, float]:
    """The 95 % interval of the quantile ``share``, which is ``at`` in the sample; NaN where it is open.

    The samples at the ranks between which the share of samples up to ``at`` lies, for as many independent
    samples as these are worth (as in :func:`share_interval`); of independent ones this is the binomial
    interval of order statistics (David and Nagaraja, Order Statistics, 2003, section 7.1) by its normal
    approximation. A side whose rank is beyond the samples is open; below 40 samples both are.
    """
    count = len(values)
    if count < 2 * BATCHES:
        return nan, nan
    fraction = share[0] / share[1]
    worth = _independent(values.counts_up_to(at), count)
    half = STUDENT_T * sqrt(fraction * (1 - fraction) / worth)
    low, high = floor((fraction - half) * count), ceil((fraction + half) * count) + 1
    inside = [place - 1 for place in (low, high) if 1 <= place <= count]
    found = dict(zip(inside, values.at_ranks(inside), strict=True)) if inside else {}
    return found.get(low - 1, nan), found.get(high - 1, nan)


def batch_counts(within: Iterable[bool], count: int) -> list[int]:
    """How many of each of the 20 batches are true, in recording order, then of those that fill no batch."""
    left = iter(within)
    return [*(sum(islice(left, count // BATCHES)) for _ in range(BATCHES)), sum(left)]


def _independent(counts: Sequence[int], count: int) -> float:
    """How many independent samples tell as much of a share as ``count`` of them, ``counts`` within it.

    20 batch means (as in R-B-115) say how much more the share varies than it would for independent ones.
    """
    total = sum(counts)
    if total in (0, count):
        return float(count)
    share, size = total / count, count // BATCHES
    means = [part / size for part in counts[:BATCHES]]
    independent = share * (1 - share) / size
    return count / max(1.0, _variance(means, mean(means)) / independent)


class Truncation(msgspec.Struct, frozen=True):
    """What MSER-5 says of a series: so many samples of its beginning belong to the warm-up.

    ``settled`` is false where that would be more than half of them: the series is too short to tell, or it
    has no steady state. ``samples`` is then where its steadiest part begins.
    """

    samples: int
    settled: bool


MSER_BATCH: Final = 5
_FEWEST_BATCHES: Final = 10
_LAST_BATCHES: Final = 5
"""Batches that are never left alone: a few means that happen to be alike look steadier than any series."""


def mser5(values: Samples) -> Truncation | None:
    """Where to cut off the beginning of a series, by MSER-5; None below 50 samples, or if one is not finite.

    The marginal standard error rule of White (Simulation 69, 1997) for means of batches of 5 (White,
    Cobb and Spratt, 2000; Franklin and White, 2008): of k batch means drop the first d so that
    ``sum((Y - mean(Y)) ** 2) / (k - d) ** 2`` over the others is smallest, the smallest d where several
    are. At least 5 batches stay, and a d beyond k / 2 is no answer (Hoad, Robinson and Davies, 2010).
    """
    batches = _batch_means(values, MSER_BATCH)
    count = len(batches)
    if count < _FEWEST_BATCHES or not all(map(isfinite, batches)):
        return None
    best, where = inf, 0
    centre = squares = 0.0
    for place in range(count - 1, -1, -1):  # the mean and the squares of those from `place` on (Welford)
        kept = count - place
        deviation = batches[place] - centre
        centre += deviation / kept
        squares += deviation * (batches[place] - centre)
        if kept >= _LAST_BATCHES and squares / (kept * kept) <= best:
            best, where = squares / (kept * kept), place
    return Truncation(where * MSER_BATCH, where <= count // 2)


def _batch_means(values: Samples, size: int) -> list[float]:
    """Means of ``size`` samples each; those that fill no batch are left out."""
    return [total(batch) / size for batch in zip(*[iter(values)] * size, strict=False)]


def mean(values: Samples) -> float:
    """The arithmetic mean, of one sample or more."""
    return total(values) / len(values)


def mean_of(values: OrderedSamples) -> float:
    """The same of samples that may be very many, or not in memory."""
    return values.total() / len(values)


def squared_variation(values: OrderedSamples) -> float:
    """Sample variance over squared mean; NaN for fewer than two samples or a mean of 0 (R-B-116)."""
    centre = mean_of(values)
    if len(values) < 2 or centre == 0:
        return nan
    return values.total_of_squares(centre) / (len(values) - 1) / centre / centre


def confidence(values: OrderedSamples) -> float:
    """Half-width of the 95 % interval of the mean from 20 batch means (R-B-115).

    The batches follow each other in recording order; the samples that fill no batch are left out.
    """
    size = len(values) // BATCHES
    if size < 2:
        return inf
    means = [mean_of(values.part(start, start + size)) for start in range(0, size * BATCHES, size)]
    return STUDENT_T * sqrt(_variance(means, mean(means))) / sqrt(BATCHES)


class Squares(msgspec.Struct, frozen=True):
    """Squared deviations of samples from ``centre``."""

    values: Samples
    centre: float

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[float]:
        for value in self.values:
            deviation = value - self.centre
            yield deviation * deviation


def _variance(values: Samples, centre: float) -> float:
    return total(Squares(values, centre)) / (len(values) - 1)


def total(values: Samples) -> float:
    """The correctly rounded sum, the same on every Python; by plain addition where it overflows."""
    try:
        return fsum(values)
    except (OverflowError, ValueError):
        found = 0.0
        for value in values:
            found += value
        return found
