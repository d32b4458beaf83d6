"""Speeding up, cutting and resampling traces."""

from __future__ import annotations

from array import array

import pytest
from scipy import stats

from serq.errors import UsageError
from serq.runtime.trace import Trace
from serq.runtime.trace.shaping import cut_rows, cut_window, resample, speed_up


def example(times: list[float] | None = None) -> Trace:
    """Three sessions of 1, 2 and 3 turns; row r has r new tokens."""
    trace = Trace()
    row = 0
    for turns in (1, 2, 3):
        for _ in range(turns):
            trace.add_turn(row, 10 + row, 0.5, row % 2)
            row += 1
        trace.close_session()
    trace.times = array("d", [0.0, 4.0, 10.0] if times is None else times)
    return trace


def timeless() -> Trace:
    trace = example()
    trace.times = None
    return trace


def test_speed_up_moves_arrivals_only() -> None:
    trace = speed_up(example(), 2.0)
    assert trace.times == array("d", [0.0, 2.0, 5.0])
    assert trace.think == example().think and trace.new == example().new


def test_cut_window_takes_whole_sessions_and_begins_at_0() -> None:
    trace = cut_window(example(), 4.0, 10.5)
    assert list(trace.new) == [1, 2, 3, 4, 5]
    assert list(trace.first_row) == [0, 2, 5]
    assert trace.times == array("d", [0.0, 6.0])
    assert cut_window(example(), 0.0, 4.0).sessions == 1  # the end of a window does not belong to it


def test_cut_rows_takes_the_sessions_that_begin_in_the_range() -> None:
    assert list(cut_rows(example(), 1, 3).new) == [1, 2]
    assert list(cut_rows(example(), 0, 4).new) == [0, 1, 2, 3, 4, 5]
    assert cut_rows(timeless(), 1, 3).times is None


def test_refusals() -> None:
    for call in (
        lambda: speed_up(example(), 0.0),
        lambda: speed_up(example(), float("nan")),
        lambda: speed_up(timeless(), 2.0),
        lambda: cut_window(timeless(), 0, 1),
        lambda: cut_window(example(), 11, 12),
        lambda: cut_rows(example(), 4, 9),
        lambda: resample(example(), seed=1, sessions=0),
        lambda: resample(example(), seed=1, rate=-1.0),
    ):
        with pytest.raises(UsageError):
            call()


def test_resample_draws_whole_sessions_uniformly_and_with_the_seed() -> None:
    trace = resample(example(), seed=3, sessions=6_000)
    turns = [len(trace.rows(i)) for i in range(trace.sessions)]
    assert {trace.new[first] for first in trace.first_row[:-1]} == {0, 1, 3}
    assert stats.chisquare([turns.count(1), turns.count(2), turns.count(3)]).pvalue > 1e-4
    assert resample(example(), seed=3, sessions=6_000) == trace
    assert resample(example(), seed=4, sessions=6_000) != trace


def test_resample_keeps_the_gaps_or_scales_them_to_the_rate() -> None:
    trace = resample(example(), seed=3, sessions=1_000)
    assert trace.times is not None
    gaps = {round(b - a, 9) for a, b in zip(trace.times, trace.times[1:], strict=False)}
    assert gaps == {4.0, 6.0}
    fast = resample(example(), seed=3, sessions=1_000, rate=10.0)
    assert fast.times is not None
    gaps = {round(b - a, 9) for a, b in zip(fast.times, fast.times[1:], strict=False)}
    assert gaps == {0.08, 0.12}
    assert fast.new == trace.new


def test_resample_without_times() -> None:
    assert resample(timeless(), seed=1).times is None
    trace = resample(timeless(), seed=1, sessions=5_000, rate=2.0)
    assert trace.times is not None
    gaps = [b - a for a, b in zip(trace.times, trace.times[1:], strict=False)]
    assert stats.kstest(gaps, stats.expon(scale=0.5).cdf).pvalue > 1e-4


def test_resample_of_one_instant() -> None:
    assert resample(example([0.0, 0.0, 0.0]), seed=1).times == array("d", [0.0, 0.0, 0.0])
