from __future__ import annotations

import pytest

import serq
from serq.errors import DataError, RunError
from serq.runtime.simulation import simulate
from serq.runtime.trace import Trace

REPLAY = """
stage d : delay;
workload {{ arrive {arrive}; trace "unused.csv" {order}; }}
session {{ loop {{ turn; observe x = new; branch (more) {{ run d (think); }} else {{ end; }} }} }}
run {{ horizon 50; {run} }}
"""


def trace(times: list[float] | None = None) -> Trace:
    """Three sessions of 2, 1 and 1 turns, with 10, 11, 20 and 30 new tokens."""
    corpus = Trace()
    for turns in ([(10, 1, 2), (11, 2, 2)], [(20, 3, 2)], [(30, 4, 2)]):
        for new, out, think in turns:
            corpus.add_turn(new, out, think)
        corpus.close_session()
    if times is not None:
        corpus.times = corpus.new[:0]
        corpus.times.extend(times)
    return corpus


def replay(
    arrive: str, corpus: Trace, *, order: str = "ordered", run: str = ""
) -> tuple[list[float], list[float]]:
    program = serq.compile(source=REPLAY.format(arrive=arrive, order=order, run=run))
    series = simulate(program.ir, trace=corpus).series["x"]
    return series.values, series.times


def test_traced_sessions_arrive_at_their_own_times_in_the_order_of_time() -> None:
    """The file is not in that order; the first arrives at 0, and time runs twice as fast."""
    values, times = replay("trace (2)", trace([9.0, 5.0, 7.0]))
    assert values == [20.0, 30.0, 10.0, 11.0]
    assert times == [0.0, 1.0, 2.0, 4.0]


def test_a_limit_stops_a_traced_workload_early() -> None:
    values, _ = replay("trace (1)", trace([9.0, 5.0, 7.0]), run="arrivals 2;")
    assert values == [20.0, 30.0]


def test_a_trace_without_times_cannot_be_followed() -> None:
    with pytest.raises(DataError, match="times"):
        replay("trace (1)", trace())


def test_an_unordered_replay_draws_sessions_of_the_corpus() -> None:
    values, _ = replay("batch(60)", trace(), order="")
    assert set(values) == {10.0, 11.0, 20.0, 30.0}
    assert values.count(10.0) == values.count(11.0)


def test_a_program_that_replays_needs_its_trace() -> None:
    program = serq.compile(source=REPLAY.format(arrive="batch(1)", order="ordered", run=""))
    with pytest.raises(DataError, match="none was given"):
        simulate(program.ir)


def test_gaps_must_be_positive() -> None:
    source = "workload { arrive renewal(~uniform(0, 1) < 0.5 ? 1 : 0); } run { horizon 99; }"
    with pytest.raises(RunError) as raised:
        serq.run(serq.compile(source=source))
    assert raised.value.code == "gap-not-positive"


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    source = "workload { arrive poisson(1); } session { observe x = now + ~exp(1); } run { horizon 30; }"
    program = serq.compile(source=source).ir
    first, again, other = (simulate(program, seed=seed).series["x"].values for seed in (7, 7, 8))
    assert first == again != other


def test_settings_given_to_the_run_replace_the_program_s() -> None:
    source = (
        "workload { arrive renewal(~det(1)); } session { observe x = now; } run { horizon 30; warmup 4; }"
    )
    run = simulate(serq.compile(source=source).ir, horizon=6, warmup=2)
    assert run.series["x"].times == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert (run.end, run.warmup, run.arrivals, run.ended) == (6, 2, 6, 5)


def test_samples_carry_a_whole_turn_whatever_the_program_makes_of_it() -> None:
    """R-A-085: cut off, not below 0; the attribute itself is as it was set."""
    session = "set turn_no = 2.9; observe x = turn_no; set turn_no = -1; observe x = turn_no;"
    source = f"workload {{ arrive batch(1); }} session {{ {session} }} run {{ horizon 1; }}"
    series = simulate(serq.compile(source=source).ir).series["x"]
    assert (series.values, series.turns) == ([2.9, -1.0], [2.0, 0.0])


def tail_warning(horizon: float, *, warmup: float = 0.0, arrive: str = "trace (1)") -> list[str]:
    """The sessions arrive at 0, 2 and 4; the last to end is the one of 4, whose turn ends it at once."""
    text = REPLAY.format(arrive=arrive, order="ordered", run=f"warmup {warmup};")
    program = serq.compile(source=text, horizon=horizon)
    warnings = simulate(program.ir, trace=trace([4.0, 0.0, 2.0])).warnings
    return [warning.message for warning in warnings if warning.code == "idle-tail"]


def test_an_idle_tail_behind_a_trace_is_named() -> None:
    """The session of 4 has two turns with 2 s between them: it ends at 6."""
    assert tail_warning(6.5) == []  # 0.5 of 6.5 are 7.7 %
    (message,) = tail_warning(8.0)
    assert message.startswith("the trace ended and its last session with it at 6: the last 25.0 % of")
    (message,) = tail_warning(8.0, warmup=4.0)
    assert "at 6: the last 50.0 %" in message
    (message,) = tail_warning(10.0, warmup=8.0)
    assert "at 8: the last 100.0 %" in message
    assert tail_warning(5.0) == []  # it lives
    assert tail_warning(50.0, arrive="batch(3)") == []  # no trace to follow
