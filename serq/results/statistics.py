"""What a report says about a series of samples. Pure Python: `serq run` needs no numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum, inf, isnan, nan, sqrt
from typing import Final, Protocol

BATCHES: Final = 20
STUDENT_T: Final = 2.093
"""The 97.5 % quantile of Student's t with 19 degrees of freedom, for a two-sided 95 % interval."""


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

    def part(self, start: int, stop: int) -> Samples:
        """Those from number ``start`` to before ``stop``, in recording order."""


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


@dataclass(frozen=True, slots=True)
class InMemory:
    """Samples in a list."""

    values: Sequence[float]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)

    def at_ranks(self, ranks: Sequence[int]) -> list[float]:
        """Those at ``ranks``, from 0, if all were sorted, NaN last."""
        numbers = sorted(value for value in self.values if not isnan(value))
        ordered = numbers + [nan] * (len(self.values) - len(numbers))
        return [ordered[rank] for rank in ranks]

    def part(self, start: int, stop: int) -> Samples:
        """Those from number ``start`` to before ``stop``, in recording order."""
        return self.values[start:stop]


def summarize(values: Sequence[float]) -> Summary:
    """The figures of ``values``, which are in recording order (R-B-115 to R-B-117)."""
    return summarize_samples(InMemory(values))


def summarize_samples(values: OrderedSamples) -> Summary:
    """The figures of ``values``, wherever they are (R-B-115 to R-B-117)."""
    count = len(values)
    if not count:
        return Summary(0, nan, inf, nan, nan, nan, nan)
    p99, smallest, largest = values.at_ranks([rank((99, 100), count), 0, count - 1])
    return Summary(
        count=count,
        mean=mean(values),
        ci=confidence(values),
        cv2=squared_variation(values),
        p99=p99,
        smallest=smallest,
        largest=largest,
    )


def quantile(values: Sequence[float], share: tuple[int, int]) -> float:
    """The smallest sample that at least ``share`` of all stay within; NaN where there are none (R-B-117).

    ``share`` is a fraction, so that 55 % of 100 samples are 55 and not 55.00000000000001. NaN counts as
    largest.
    """
    return InMemory(values).at_ranks([rank(share, len(values))])[0] if values else nan


def rank(share: tuple[int, int], count: int) -> int:
    """The place, from 0, of a quantile among ``count`` samples in order."""
    return max(1, -(-share[0] * count // share[1])) - 1


def share_interval(within: Sequence[bool]) -> tuple[float, float]:
    """The 95 % interval of the share of samples that are true, which are in recording order.

    Wilson's interval for as many independent samples as these are worth: 20 batch means (as in R-B-115) say
    how much more the share varies than it would for independent ones. NaN below 40 samples.
    """
    size = len(within) // BATCHES
    if size < 2:
        return nan, nan
    share = sum(within) / len(within)
    means = [sum(within[start : start + size]) / size for start in range(0, size * BATCHES, size)]
    if share in (0.0, 1.0):
        worth = float(len(within))
    else:
        independent = share * (1 - share) / size
        worth = len(within) / max(1.0, _variance(means, mean(means)) / independent)
    spread = STUDENT_T * STUDENT_T / worth
    centre = (share + spread / 2) / (1 + spread)
    half = sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def mean(values: Samples) -> float:
    """The arithmetic mean, of one sample or more."""
    return _total(values) / len(values)


def squared_variation(values: Samples) -> float:
    """Sample variance over squared mean; NaN for fewer than two samples or a mean of 0 (R-B-116)."""
    centre = mean(values)
    if len(values) < 2 or centre == 0:
        return nan
    return _variance(values, centre) / centre / centre


def confidence(values: OrderedSamples) -> float:
    """Half-width of the 95 % interval of the mean from 20 batch means (R-B-115).

    The batches follow each other in recording order; the samples that fill no batch are left out.
    """
    size = len(values) // BATCHES
    if size < 2:
        return inf
    means = [mean(values.part(start, start + size)) for start in range(0, size * BATCHES, size)]
    return STUDENT_T * sqrt(_variance(means, mean(means))) / sqrt(BATCHES)


@dataclass(frozen=True, slots=True)
class _Squares:
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
    return _total(_Squares(values, centre)) / (len(values) - 1)


def _total(values: Samples) -> float:
    """The correctly rounded sum, the same on every Python; by plain addition where it overflows."""
    try:
        return fsum(values)
    except (OverflowError, ValueError):
        total = 0.0
        for value in values:
            total += value
        return total
