"""What a report says about a series of samples. Pure Python: `serq run` needs no numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, fsum, inf, isnan, nan, sqrt
from typing import Final

BATCHES: Final = 20
STUDENT_T: Final = 2.093
"""The 97.5 % quantile of Student's t with 19 degrees of freedom, for a two-sided 95 % interval."""


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


def summarize(values: Sequence[float]) -> Summary:
    """The figures of ``values``, which are in recording order (R-B-115 to R-B-117)."""
    if not values:
        return Summary(0, nan, inf, nan, nan, nan, nan)
    numbers = sorted(value for value in values if not isnan(value))
    ordered = numbers + [nan] * (len(values) - len(numbers))
    return Summary(
        count=len(values),
        mean=mean(values),
        ci=confidence(values),
        cv2=squared_variation(values),
        p99=ordered[ceil(0.99 * len(values)) - 1],
        smallest=ordered[0],
        largest=ordered[-1],
    )


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, of one sample or more."""
    return _total(values) / len(values)


def squared_variation(values: Sequence[float]) -> float:
    """Sample variance over squared mean; NaN for fewer than two samples or a mean of 0 (R-B-116)."""
    centre = mean(values)
    if len(values) < 2 or centre == 0:
        return nan
    return _variance(values, centre) / centre / centre


def confidence(values: Sequence[float]) -> float:
    """Half-width of the 95 % interval of the mean from 20 batch means (R-B-115).

    The batches follow each other in recording order; the samples that fill no batch are left out.
    """
    size = len(values) // BATCHES
    if size < 2:
        return inf
    means = [mean(values[start : start + size]) for start in range(0, size * BATCHES, size)]
    return STUDENT_T * sqrt(_variance(means, mean(means))) / sqrt(BATCHES)


def _variance(values: Sequence[float], centre: float) -> float:
    deviations = (value - centre for value in values)
    return _total([deviation * deviation for deviation in deviations]) / (len(values) - 1)


def _total(values: Sequence[float]) -> float:
    """The correctly rounded sum, the same on every Python; by plain addition where it overflows."""
    try:
        return fsum(values)
    except (OverflowError, ValueError):
        total = 0.0
        for value in values:
            total += value
        return total
