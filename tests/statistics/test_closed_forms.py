"""Short runs agree with queueing theory; ``coverage.py`` is the long form of this."""

from __future__ import annotations

from statistics import fmean, stdev

import pytest

from tests.statistics.coverage import covered, interval
from tests.statistics.models import Model, models

SEEDS = 16


@pytest.mark.parametrize(
    "model", [m for m in models(length=0.2) if m.name.endswith("0.5")], ids=lambda m: m.name
)
def test_mean_response_and_its_interval(model: Model) -> None:
    intervals = [interval(model, seed) for seed in range(1, SEEDS + 1)]
    means = [found.mean for found in intervals]
    assert abs(fmean(means) - model.truth) < 4 * stdev(means) / SEEDS**0.5
    assert covered(intervals, model.truth) >= 12 / 16
