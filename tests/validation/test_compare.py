"""Errors of a prediction, worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from serq.validation.compare import Comparison, Error, compare, percentile
from serq.validation.measured_run import MeasuredRequest, MeasuredRun
from serq.validation.replay import PredictedRequest, Prediction

MEASURED = (
    MeasuredRequest(10, 3, arrival=0, queued=1, first=2, last=4),
    MeasuredRequest(10, 1, arrival=1, queued=1, first=5, last=5),
)
PREDICTED = [PredictedRequest(0, 0, 0.5, 2.5, 5.5), PredictedRequest(1, 0, 1.5, 4.5, 4.5)]


def compared(run: MeasuredRun, deliveries: list[tuple[float, int]] | None = None) -> Comparison:
    return compare(run, Prediction(PREDICTED, deliveries or []))


def test_both_sides_are_counted_from_when_the_engine_took_a_request_in() -> None:
    found = compared(MeasuredRun(Path(), MEASURED))
    # TTFT 1 and 4, predicted 2 and 3; latency 3 and 4, predicted 5 and 3.
    assert found.metrics["ttft"]["mean"] == Error(2.5, 2.5)
    assert found.metrics["ttft"]["p50"].percent == 0
    assert found.metrics["ttft"]["p90"] == Error(pytest.approx(3.7), pytest.approx(2.9))
    assert found.metrics["e2e"]["mean"] == Error(3.5, 4)
    assert found.metrics["e2e"]["mean"].percent == pytest.approx(100 / 7)
    # One request has more than one token: (4 - 2) / 2 and (5.5 - 2.5) / 2.
    assert found.metrics["tpot"]["p99"] == Error(1, 1.5)
    # From the sending: 2 and 4, predicted 2.5 and 3.5.
    assert found.from_arrival["ttft"]["p90"] == Error(pytest.approx(3.8), pytest.approx(3.4))
    assert found.queue_delay == Error(0.5, 0.5)
    assert found.makespan == Error(5, 5.5)
    assert found.request_errors == (pytest.approx(200 / 3), pytest.approx(25))


def test_a_client_knows_no_more_than_when_it_sent() -> None:
    seen = tuple(
        MeasuredRequest(r.prompt_tokens, r.output_tokens, r.arrival, None, r.first, r.last) for r in MEASURED
    )
    found = compared(MeasuredRun(Path(), seen))
    assert found.metrics is found.from_arrival and found.queue_delay is None
    assert found.metrics["ttft"]["mean"] == Error(3, 3)


def test_tokens_over_time_as_logged_against_as_delivered() -> None:
    run = MeasuredRun(Path(), MEASURED, rates=((1.0, 10.0), (5.0, 5.0), (6.0, 4.0)))
    # Logged: 10 and 4 * 5 tokens by second 5, 4 in second 6. Delivered: 20 at second 5, 14 at 5.5.
    found = compared(run, [(1.0, 12), (5.0, 8), (5.5, 14)])
    assert found.windows == ((6.0, 4.0), (0.8, 2.8))
    assert found.throughput_error == pytest.approx(100 * 4 / 6.8)


def test_without_a_log_tokens_are_spread_evenly_on_both_sides() -> None:
    # Measured at 2, 3, 4 and 5; predicted at 2.5, 4, 5.5 and 4.5.
    assert compared(MeasuredRun(Path(), MEASURED)).windows == ((0.8, 0.6), (0, 0.2))


def test_percentiles_are_linear_between_ranks() -> None:
    assert [percentile([3, 1, 2, 4], share) for share in (0, 0.5, 0.9, 1)] == [1, 2.5, pytest.approx(3.7), 4]
    assert percentile([7], 0.99) == 7
    assert math.isnan(percentile([], 0.5))


def test_an_error_of_nothing_is_not_determined() -> None:
    assert math.isnan(Error(0, 1).percent)
