"""Short runs agree with queueing theory; ``coverage.py`` is the long form of this."""

from __future__ import annotations

from statistics import fmean, stdev

import pytest

from tests.statistics.coverage import covered, interval, truth_of
from tests.statistics.models import Model, models

SEEDS = 16


@pytest.mark.parametrize(
    "model", [m for m in models(length=0.2) if m.name.endswith("0.5")], ids=lambda m: m.name
)
def test_mean_response_and_its_interval(model: Model) -> None:
    intervals = [interval(model, "mean", seed) for seed in range(1, SEEDS + 1)]
    means = [found.figure for found in intervals]
    assert abs(fmean(means) - model.truth) < 4 * stdev(means) / SEEDS**0.5
    assert covered(intervals, model.truth) >= 12 / 16


@pytest.mark.parametrize("of", ["p50", "p99"])
def test_quantiles_of_mm1_and_their_intervals(of: str) -> None:
    (model,) = [m for m in models(length=0.2) if m.name == "M/exp/1 at 0.5"]
    truth = truth_of(model, of)
    assert truth == pytest.approx({"p50": 1.386294, "p99": 9.210340}[of])  # 2 ln 2 and 2 ln 100
    intervals = [interval(model, of, seed) for seed in range(1, SEEDS + 1)]
    assert all(found.holds(found.figure) and found.low < found.figure for found in intervals)
    assert covered(intervals, truth) >= 12 / 16
