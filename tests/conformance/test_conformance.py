"""Every recorded program comes to what was recorded."""

from __future__ import annotations

import pytest

from tests.conformance.ours import outcome_here
from tests.conformance.outcome import differences, number
from tests.conformance.recordings import Expectation, Recording, deviations, recordings

CONFORMING = [recording for name, recording in recordings().items() if name not in deviations()]


@pytest.mark.parametrize("recording", CONFORMING, ids=lambda recording: recording.name)
def test_outcome_is_the_recorded_one(recording: Recording) -> None:
    outcome = outcome_here(recording.path)
    if recording.expectations:
        assert not outcome.refused, outcome.message
        for expectation in recording.expectations:
            assert_figure(expectation, outcome.report["observes"])
    else:
        assert not differences(recording.outcome, outcome)


def assert_figure(expectation: Expectation, observes: dict[str, dict[str, float]]) -> None:
    """A statistical program's figure is near its closed form."""
    observation, figure = expectation.figure.split(".")
    assert number(observes[observation][figure]) == pytest.approx(
        expectation.value, rel=expectation.relative_tolerance
    )
