"""Random draws: pinned for ever, uniform, independent of each other, and of the right distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, product
from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from scipy import stats

from serq.errors import RunError
from serq.runtime.random import SAMPLERS, DrawStream, RandomSource, _mix

SMALLEST_P = 1e-4
"""Seeds are fixed, so a test passes always or never; a fair generator passes all of these."""


def test_the_finalizer_is_that_of_splitmix64() -> None:
    golden = 0x9E3779B97F4A7C15
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # SplitMix64 seeded with 0
    assert [_mix((n * golden) & (2**64 - 1)) for n in (1, 2, 3)] == published


def test_first_values_are_pinned_for_ever() -> None:
    source = RandomSource(1)
    assert source.arrivals().unit(0) == 0.6839039092586533
    assert source.trace(0).unit(0) == 0.681500850886862
    assert source.workload(0, 0).unit(0) == 0.2885861743754564
    assert source.session(0, 0).unit(0) == 0.0001095231550169995
    assert source.stage("engine", 0).unit(0) == 0.1338140472809055
    assert source.pool("kv", 1).unit(0) == 0.33263656085279325
    assert source.pool("a_rather_long_name", 1).unit(0) == 0.31879071568826334
    stream = source.session(7, 2)
    assert [stream.word(0) for _ in range(3)] == [
        16435329106141688164,
        322617780532432619,
        14660884641075445323,
    ]
    assert stream.word(1) == 12908355386658727501  # the draws of site 0 did not move those of site 1


def test_a_site_does_not_feel_the_draws_of_another() -> None:
    alone, mixed = RandomSource(9).session(4, 1), RandomSource(9).session(4, 1)
    expected = [alone.unit(2) for _ in range(5)]
    got = []
    for _ in range(5):
        mixed.unit(1)
        got.append(mixed.unit(2))
        mixed.unit(3)
    assert got == expected


def test_every_part_of_the_key_matters() -> None:
    streams = {
        "arrivals": RandomSource(1).arrivals(),
        "seed": RandomSource(2).arrivals(),
        "trace": RandomSource(1).trace(0),
        "trace session": RandomSource(1).trace(1),
        "workload": RandomSource(1).workload(0, 0),
        "workload session": RandomSource(1).workload(1, 0),
        "workload turn": RandomSource(1).workload(0, 1),
        "session": RandomSource(1).session(0, 0),
        "session session": RandomSource(1).session(1, 0),
        "session turn": RandomSource(1).session(0, 1),
        "stage": RandomSource(1).stage("a", 0),
        "stage name": RandomSource(1).stage("b", 0),
        "stage longer name": RandomSource(1).stage("a\0", 0),
        "stage member": RandomSource(1).stage("a", 1),
        "pool": RandomSource(1).pool("a", 0),
    }
    words = {(name, site): stream.word(site) for name, stream in streams.items() for site in (0, 1)}
    words |= {(name, "again"): stream.word(0) for name, stream in streams.items()}
    assert len(set(words.values())) == 3 * len(streams)


def test_a_seed_counts_modulo_two_to_the_64() -> None:
    assert RandomSource(2**64 + 5).arrivals().word(0) == RandomSource(5).arrivals().word(0)


Axis = Callable[[int], float]
AXES: dict[str, Axis] = {
    "seed": lambda i: RandomSource(i).session(0, 0).unit(0),
    "session": lambda i: RandomSource(1).session(i, 0).unit(0),
    "turn": lambda i: RandomSource(1).session(0, i).unit(0),
    "site": lambda i: RandomSource(1).session(0, 0).unit(i),
    "member": lambda i: RandomSource(1).stage("engine", i).unit(0),
    "trace": lambda i: RandomSource(1).trace(i).unit(0),
}


@pytest.mark.parametrize("axis", AXES)
def test_uniform_and_uncorrelated_along_every_axis(axis: str) -> None:
    values = np.array([AXES[axis](i) for i in range(20_000)])
    assert_uniform_and_uncorrelated(values)


def test_uniform_and_uncorrelated_along_one_site() -> None:
    stream = RandomSource(1).arrivals()
    assert_uniform_and_uncorrelated(np.array([stream.unit(0) for _ in range(100_000)]))


def assert_uniform_and_uncorrelated(values: np.ndarray) -> None:
    assert values.min() >= 0.0 and values.max() < 1.0
    assert stats.kstest(values, "uniform").pvalue > SMALLEST_P
    counts, _ = np.histogram(values, bins=256, range=(0, 1))
    assert stats.chisquare(counts).pvalue > SMALLEST_P
    low_bits = np.bincount((values * 2**53).astype(np.int64) & 63, minlength=64)
    assert stats.chisquare(low_bits).pvalue > SMALLEST_P
    for lag in (1, 2, 3, 16):
        assert abs(np.corrcoef(values[:-lag], values[lag:])[0, 1]) < 4 / sqrt(len(values))
    pairs, _, _ = np.histogram2d(values[:-1:2], values[1::2], bins=16, range=[[0, 1], [0, 1]])
    assert stats.chisquare(pairs.ravel()).pvalue > SMALLEST_P


def test_streams_of_one_session_are_uncorrelated_with_each_other() -> None:
    source = RandomSource(3)
    rows = np.array(
        [
            [
                source.workload(i, 0).unit(0),
                source.session(i, 0).unit(0),
                source.session(i, 1).unit(0),
                source.session(i, 0).unit(1),
                source.trace(i).unit(0),
            ]
            for i in range(10_000)
        ]
    )
    off_diagonal = np.corrcoef(rows.T) - np.eye(rows.shape[1])
    assert np.abs(off_diagonal).max() < 4 / sqrt(len(rows))


def test_no_word_repeats_on_a_grid_of_owners_sites_and_counts() -> None:
    words = set()
    for session, turn in product(range(100), range(10)):
        stream = RandomSource(1).session(session, turn)
        words |= {stream.word(site) for site in range(10) for _ in range(10)}
    assert len(words) == 100_000


def test_a_flipped_bit_of_any_key_part_flips_half_of_the_bits() -> None:
    def words(seed: int, session: int, turn: int) -> int:
        return RandomSource(seed).session(session, turn).word(0)

    base = words(5, 6, 7)
    for part, bit in product(range(3), range(20)):
        key = [5, 6, 7]
        key[part] ^= 1 << bit
        assert 12 <= (base ^ words(*key)).bit_count() <= 52


def sample(distribution: str, *arguments: float, count: int = 20_000) -> np.ndarray:
    def values() -> Iterator[float]:
        stream = RandomSource(11).arrivals()
        while True:
            yield SAMPLERS[distribution](stream, 0, *arguments)  # type: ignore[index]

    return np.fromiter(islice(values(), count), float)


def hyperexponential_cdf(x: np.ndarray, mean: float, cv2: float) -> np.ndarray:
    p = 0.5 * (1 + sqrt((cv2 - 1) / (cv2 + 1)))
    return 1 - p * np.exp(-2 * p * x / mean) - (1 - p) * np.exp(-2 * (1 - p) * x / mean)


@pytest.mark.parametrize(
    ("distribution", "arguments", "cdf"),
    [
        ("exp", (3.0,), stats.expon(scale=3).cdf),
        ("uniform", (-2.0, 5.0), stats.uniform(-2, 7).cdf),
        ("erlang", (4.9, 6.0), stats.gamma(4, scale=1.5).cdf),
        ("erlang", (0.2, 6.0), stats.expon(scale=6).cdf),
        ("h2", (2.0, 5.0), lambda x: hyperexponential_cdf(x, 2.0, 5.0)),
        ("h2", (2.0, 0.3), stats.expon(scale=2).cdf),
        ("gamma", (1.0, 3.0), stats.expon(scale=3).cdf),
        ("gamma", (0.25, 3.0), stats.gamma(0.25, scale=12).cdf),
        ("gamma", (2.5, 3.0), stats.gamma(2.5, scale=1.2).cdf),
        ("gamma", (400.0, 3.0), stats.gamma(400, scale=0.0075).cdf),
        ("lognormal", (2.0, 0.5), stats.lognorm(sqrt(np.log(1.5)), scale=2 / sqrt(1.5)).cdf),
        ("lognormal", (2.0, 8.0), stats.lognorm(sqrt(np.log(9)), scale=2 / 3).cdf),
    ],
)
def test_distributions(
    distribution: str, arguments: tuple[float, ...], cdf: Callable[[np.ndarray], np.ndarray]
) -> None:
    assert stats.kstest(sample(distribution, *arguments), cdf).pvalue > SMALLEST_P


def test_h2_has_the_mean_and_variation_asked_for() -> None:
    values = sample("h2", 2.0, 5.0, count=100_000)
    assert values.mean() == pytest.approx(2.0, rel=0.03)
    assert values.var() / values.mean() ** 2 == pytest.approx(5.0, rel=0.1)


@pytest.mark.parametrize("shape", [0.1, 0.5, 1.0, 4.0, inf])
def test_gamma_has_the_mean_asked_for_and_a_variation_of_one_over_its_shape(shape: float) -> None:
    values = sample("gamma", shape, 2.0, count=100_000)
    assert values.mean() == pytest.approx(2.0, rel=0.03)
    assert values.var() / values.mean() ** 2 == pytest.approx(1 / shape, rel=0.05)


def test_a_gamma_draw_is_positive_however_small_its_shape() -> None:
    assert sample("gamma", 1e-4, 2.0, count=1000).min() > 0.0  # most of these are below 1e-308


@pytest.mark.parametrize("distribution", ["gamma", "lognormal"])
def test_what_one_draw_rejects_does_not_move_the_next(distribution: str) -> None:
    stream, other = RandomSource(1).arrivals(), RandomSource(1).arrivals()
    for shape in (0.3, 0.9, 7.0):
        SAMPLERS[distribution](stream, 0, shape, 1.0)  # type: ignore[index]
        other.unit(0)
    assert stream.unit(0) == other.unit(0)


def test_a_mean_only_scales_gamma_and_lognormal() -> None:
    assert np.allclose(sample("gamma", 0.5, 10, count=99), 10 * sample("gamma", 0.5, 1, count=99))
    assert np.allclose(sample("lognormal", 10, 2, count=99), 10 * sample("lognormal", 1, 2, count=99))
    assert set(sample("lognormal", 3.0, 0.0, count=99)) == {3.0}


@pytest.mark.parametrize(
    "call",
    [(DrawStream.gamma, 0.0, 1.0), (DrawStream.gamma, nan, 1.0)]
    + [(DrawStream.lognormal, 1.0, cv2) for cv2 in (-0.1, inf, nan)],
)
def test_no_distribution_has_these_parameters(call: tuple[Callable[..., float], float, float]) -> None:
    method, *arguments = call
    with pytest.raises(RunError) as refused:
        method(RandomSource(1).arrivals(), 0, *arguments)
    assert refused.value.code == "impossible-draw"


def test_bernoulli() -> None:
    values = sample("bernoulli", 0.3)
    assert set(values) == {0.0, 1.0}
    assert values.mean() == pytest.approx(0.3, abs=0.013)
    assert set(sample("bernoulli", 1.0, count=1000)) == {1.0}
    assert set(sample("bernoulli", 0.0, count=1000)) == {0.0}


def test_det_takes_no_number_of_the_stream() -> None:
    stream, other = RandomSource(1).arrivals(), RandomSource(1).arrivals()
    assert stream.det(0, 7.5) == 7.5
    assert stream.unit(0) == other.unit(0)


def test_parameters_out_of_range_follow_the_formulas() -> None:
    stream = RandomSource(1).arrivals()
    assert stream.exp(0, 0.0) == 0.0
    assert stream.exp(0, -1.0) < 0.0
    assert stream.uniform(0, 3.0, 3.0) == 3.0
    assert isnan(stream.exp(0, nan))
    assert stream.erlang(0, nan, 1.0) > 0.0
    assert stream.bernoulli(0, nan) == 0.0


@pytest.mark.parametrize("call", [(DrawStream.erlang, inf, 1.0), (DrawStream.h2, 1.0, inf)])
def test_endless_parameters_are_refused(call: tuple[Callable[..., float], float, float]) -> None:
    method, *arguments = call
    with pytest.raises(RunError, match=r"erlang|h2"):
        method(RandomSource(1).arrivals(), 0, *arguments)


def test_index_is_uniform() -> None:
    picks = [RandomSource(1).trace(i).index(0, 7) for i in range(20_000)]
    counts = np.bincount(picks, minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > SMALLEST_P
