"""Records hold whole samples, whatever stopped the run."""

from serq.runtime.records import Series


def test_a_sample_cut_by_an_interrupt_is_dropped() -> None:
    series = Series("ttft", [1.0, 2.0, 3.0], [0.5, 1.5], [0, 1], [1.0])
    series.trim()
    assert (series.values, series.times, series.sessions, series.turns) == ([1.0], [0.5], [0], [1.0])
