"""Statistics of observations against definitions and against recorded reports."""

from __future__ import annotations

from math import ceil, floor, inf, isnan, nan, sqrt
from statistics import variance
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from serq.results.statistics import (
    InMemory,
    Truncation,
    mser5,
    quantile,
    quantile_interval,
    share_interval,
    summarize,
)
from tests.conformance.recordings import recordings


def test_no_samples() -> None:
    summary = summarize([])
    assert summary.count == 0 and summary.ci == inf
    assert all(map(isnan, (summary.mean, summary.cv2, summary.p99, summary.smallest, summary.largest)))


def test_one_sample() -> None:
    summary = summarize([13.0])
    assert (summary.count, summary.mean, summary.p99) == (1, 13.0, 13.0)
    assert isnan(summary.cv2) and summary.ci == inf


def test_against_numpy_and_scipy() -> None:
    values = np.random.default_rng(5).exponential(3.0, 1009)
    summary = summarize(list(values))
    assert summary.mean == pytest.approx(values.mean(), rel=1e-12)
    assert summary.cv2 == pytest.approx(values.var(ddof=1) / values.mean() ** 2, rel=1e-12)
    assert summary.p99 == np.quantile(values, 0.99, method="inverted_cdf")
    batches = values[:1000].reshape(20, 50).mean(axis=1)
    quantile = stats.t(19).ppf(0.975)
    assert summary.ci == pytest.approx(quantile * batches.std(ddof=1) / sqrt(20), rel=1e-4)
    assert (summary.smallest, summary.largest) == (values.min(), values.max())


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (99, 99), (100, 99), (101, 100), (200, 198), (201, 199)])
def test_p99_is_the_sample_of_that_rank(count: int, rank: int) -> None:
    assert summarize([float(value) for value in range(count, 0, -1)]).p99 == rank


def test_confidence_needs_40_samples_and_drops_the_tail() -> None:
    values = [float(index % 2) for index in range(39)]
    assert summarize(values).ci == inf
    values = [float(index) for index in range(40)]
    expected = 2.093 * np.array([2 * i + 0.5 for i in range(20)]).std(ddof=1) / sqrt(20)
    assert summarize(values).ci == pytest.approx(expected, rel=1e-12)
    assert summarize([*values, 1e9]).ci == pytest.approx(expected, rel=1e-12)


def test_extreme_samples_do_not_break_it() -> None:
    assert isnan(summarize([nan, 1.0]).mean) and summarize([nan, 1.0]).smallest == 1.0
    assert summarize([inf, 1.0]).mean == inf
    assert isnan(summarize([inf, -inf]).mean)
    assert summarize([1e308, 1e308, 1e308]).mean == inf
    assert isnan(summarize([0.0, 0.0]).cv2)
    assert summarize([1e-100, 1e-100, 3e-100]).cv2 == pytest.approx(0.48)
    assert summarize([1e-300, 1e-300]).cv2 == 0.0
    assert isnan(summarize([1.0, -1.0]).cv2)


def test_recorded_reports() -> None:
    compared = 0
    for recording in recordings().values():
        for name, series in recording.outcome.series.items():
            summary = summarize([float(sample) for sample in series["samples"]])
            for field, value in recording.outcome.report["observes"][name].items():
                assert_equal(getattr(summary, field), value)
                compared += 1
    assert compared > 1000


def assert_equal(got: float, recorded: Any) -> None:
    """Recordings write null for what is not finite."""
    if recorded is None:
        assert not np.isfinite(got)
    else:
        assert got == pytest.approx(recorded, rel=1e-9, abs=1e-12)


def test_quantiles_are_exact_where_floating_point_is_not() -> None:
    """0.55 * 100 is 55.00000000000001: the 55th of 100 samples, not the 56th."""
    samples = [float(number) for number in range(100, 0, -1)]
    assert quantile(samples, (55, 100)) == 55 and quantile(samples, (99, 100)) == 99
    assert quantile(samples, (999, 1000)) == 100 and quantile([3.0], (50, 100)) == 3
    assert isnan(quantile([], (50, 100)))
    assert quantile([1.0, nan, 2.0], (50, 100)) == 2 and isnan(quantile([1.0, nan, 2.0], (99, 100)))


def test_the_interval_of_a_share_of_independent_samples_is_wilsons() -> None:
    """Alternating samples have batch means without any spread: they count as independent, and no more."""
    low, high = share_interval([True, False] * 200)
    z = 2.093
    centre, half = 0.5, z * sqrt(0.25 / 400 + z * z / (4 * 400**2)) / (1 + z * z / 400)
    assert (low, high) == (pytest.approx(centre - half), pytest.approx(centre + half))
    low, high = share_interval([True] * 400)
    assert (low, high) == (pytest.approx(1 / (1 + z * z / 400)), 1.0)
    assert all(map(isnan, share_interval([True] * 39)))


def test_samples_that_come_in_runs_are_worth_less() -> None:
    """20 batches that are all true or all false are worth 20 samples (19 for the variance's n - 1)."""
    low, high = share_interval(([True] * 20 + [False] * 20) * 10)
    worth, z = 400 / (20 / 19 * 0.25 / (0.25 / 20)), 2.093
    half = z * sqrt(0.25 / worth + z * z / (4 * worth**2)) / (1 + z * z / worth)
    assert (low, high) == (pytest.approx(0.5 - half), pytest.approx(0.5 + half))


def test_the_interval_of_a_quantile_lies_between_two_samples() -> None:
    """Every batch has the same share of samples up to the median, so 400 samples are worth 400.

    0.5 +- 2.093 sqrt(0.25 / 400) of 400 are 179.07 and 220.93: the 179th sample and the 222nd. For p99 the
    upper rank is beyond the largest sample.
    """
    samples = InMemory([float(20 * k + batch) for batch in range(20) for k in range(20)])
    assert quantile_interval(samples, (50, 100), 199.0) == (178.0, 221.0)
    low, high = quantile_interval(samples, (99, 100), 395.0)
    assert low <= 390.0 and isnan(high)
    assert all(map(isnan, quantile_interval(InMemory([1.0] * 39), (50, 100), 1.0)))


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, inf, nan, -0.0, 5]), min_size=40, max_size=130))
def test_what_fills_no_batch_counts_for_the_share_and_not_for_its_spread(values: list[float]) -> None:
    """From the definitions: the share of all samples, its variance over 20 batches, two ranks around it."""
    count, size = len(values), len(values) // 20
    ordered = sorted(values, key=lambda value: (isnan(value), value))
    for numerator in (50, 99):
        at = ordered[max(1, -(-numerator * count // 100)) - 1]
        within = [value <= at for value in values]
        batches = [within[batch * size : (batch + 1) * size] for batch in range(20)]
        share, worth = sum(within) / count, float(count)
        if 0 < share < 1:
            spread = variance([sum(batch) / size for batch in batches])
            worth = count / max(1.0, spread / (share * (1 - share) / size))
        half = 2.093 * sqrt(numerator / 100 * (1 - numerator / 100) / worth)
        ranks = floor((numerator / 100 - half) * count), ceil((numerator / 100 + half) * count) + 1
        expected = [ordered[rank - 1] if 1 <= rank <= count else nan for rank in ranks]
        found = quantile_interval(InMemory(values), (numerator, 100), at)
        assert all(a == b or (isnan(a) and isnan(b)) for a, b in zip(found, expected, strict=True))


def test_the_interval_of_a_quantile_of_independent_samples_holds_as_often_as_the_binomial_says() -> None:
    """The k-th to the m-th of n samples hold the median as often as a fair coin falls k to m - 1 times."""
    generator, n, held = np.random.default_rng(3), 400, 0
    for _ in range(300):
        samples = InMemory(list(generator.exponential(1.0, n)))
        low, high = quantile_interval(samples, (50, 100), samples.at_ranks([199])[0])
        held += low <= np.log(2) <= high
    # the narrowest it can be: worth all 400
    exact = stats.binom.cdf(221, n, 0.5) - stats.binom.cdf(178, n, 0.5)
    assert exact > 0.95 and held >= stats.binom.ppf(0.001, 300, exact)


def test_samples_that_come_in_runs_make_the_interval_of_a_quantile_wider() -> None:
    """Batches that lie wholly below or above the median: 400 samples tell as much as some twenty."""
    alternating = [float(batch % 2 * 1000 + k) for batch in range(20) for k in range(20)]
    low, high = quantile_interval(InMemory(alternating), (50, 100), 19.0)
    worth, z = 400 / (20 / 19 * 0.25 / (0.25 / 20)), 2.093
    half = z * (0.25 / worth) ** 0.5
    ordered = sorted(alternating)
    assert (low, high) == (ordered[int((0.5 - half) * 400) - 1], ordered[int((0.5 + half) * 400 + 1)])


def brute_force_mser5(values: list[float]) -> tuple[int, bool]:
    """Every d by the formula, on batch means of 5, at least 5 of them kept."""
    means = [np.mean(values[i : i + 5]) for i in range(0, len(values) - len(values) % 5, 5)]
    k = len(means)
    figures = [
        sum((y - np.mean(means[d:])) ** 2 for y in means[d:]) / (k - d) ** 2 for d in range(k - 4)
    ]
    best = int(np.argmin(figures))
    return 5 * best, best <= k // 2


@pytest.mark.parametrize("seed", range(12))
def test_mser5_against_its_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(50, 400))
    noise = random.normal(0, 1, count).cumsum() if seed % 3 == 0 else random.exponential(1, count)
    values = list(map(float, noise + 6 * np.exp(-np.arange(count) / 20)))
    found = mser5(values)
    assert found is not None and (found.samples, found.settled) == brute_force_mser5(values)


def test_mser5_finds_a_known_beginning() -> None:
    steady = [1.0, 3.0] * 100
    assert mser5([50.0] * 40 + steady) == Truncation(40, True)
    assert mser5([50.0] * 42 + steady) == Truncation(45, True)  # so goes a batch that holds two
    assert mser5(steady) == Truncation(0, True)
    assert mser5([2.0] * 100) == Truncation(0, True)
    assert mser5([50.0] * 150 + [2.0] * 50) == Truncation(150, False)


def test_mser5_that_cannot_tell() -> None:
    assert mser5([1.0] * 49) is None and mser5([]) is None
    assert mser5([1.0] * 50) == Truncation(0, True)
    assert mser5([1.0] * 99 + [nan]) is None and mser5([1.0] * 99 + [inf]) is None


def test_quantiles_of_a_summary_have_their_intervals() -> None:
    """Batches of 50 are spread evenly over all values, so 1000 samples are worth as many; ranks by hand."""
    values = [float(place % 50 * 20 + place // 50) for place in range(1000)]
    summary = summarize(values)
    assert summary.p50 == 499 and summary.p99 == 989
    # half-width 2.093 * sqrt(0.25 / 1000) = 3.309 %: ranks 466 and 535
    assert (summary.p50_low, summary.p50_high) == (465, 534)
    # 2.093 * sqrt(0.99 * 0.01 / 1000) = 0.6586 %: ranks 983 and 998
    assert (summary.p99_low, summary.p99_high) == (982, 997)
