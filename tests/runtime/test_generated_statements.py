"""Statements as one generator: nesting without limit, ends and preemptions from any depth."""

from __future__ import annotations

import pytest

from serq.errors import RunError
from tests.runtime.programs import batch, records, samples


def test_blocks_nest_deeper_than_python_allows() -> None:
    """40 holds inside each other are 80 nested blocks; Python allows 20."""
    source = batch(
        "hold p (1) { " * 40 + "observe x = used(p); run d (1);" + " }" * 40 + "observe x = now;", "pool p {}"
    )
    assert samples(source) == [40.0, 1.0]


def test_loops_and_branches_nest_deeply() -> None:
    body = "loop { branch (now < 5) { " * 12 + "run d (1); observe x = now;" + " } else { end; } }" * 12
    assert samples(batch(body)) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_end_leaves_every_block() -> None:
    body = "hold p (2) { " * 15 + "loop { end; }" + " }" * 15
    run = records(batch(body + "observe x = 1;", "pool p {}"))
    assert run.series["x"].values == [] and run.ended == 1


def test_a_preemption_unwinds_to_its_hold_from_any_depth() -> None:
    """The victim is 25 holds deep; the outermost one restarts, and finds its attributes as they were."""
    pools = "pool p { cap 4; preempt lifo; } pool q {}"
    victim = (
        "hold p (2) { set tries = tries + 1; observe x = tries; "
        + "hold q (1) { " * 24
        + "run d (9);"
        + " }" * 25
    )
    grower = "hold p (1) { run d (1); grow p (3); run d (2); }"
    source = batch(f"branch (serial) {{ run d (0.5); {victim} end; }} {grower}", pools, count=2)
    run = records(source)
    assert run.series["x"].times == [0.5, 3.0] and run.series["x"].values == [1.0, 2.0]
    assert run.pools[0].preemptions == 1


@pytest.mark.parametrize(
    "session",
    [
        "loop { branch (serial) { run d (1); } set a = a + 1; }",
        "loop { branch (serial) { run d (1); } }",
        "loop { run d (0 * serial); }",
        "loop { hold p (1) { run d (0 * serial); } }",
    ],
)
def test_a_loop_that_lets_no_time_pass_stops_the_run(session: str) -> None:
    """R-A-096: with the session and the instant, and what was recorded before."""
    source = batch(f"run d (2); observe x = 1; {session}", "pool p {}")
    with pytest.raises(RunError) as raised:
        records(source)
    assert raised.value.code == "no-time-passes"
    assert (raised.value.time, raised.value.session) == (2.0, 0)
    assert raised.value.records is not None
    assert raised.value.records.series["x"].values == [1.0]


def test_a_closed_workload_of_sessions_without_duration_stops_the_run() -> None:
    session = "branch (serial < 0) { run d (1); }"
    source = f"stage d : delay; workload {{ arrive closed(1); }} session {{ {session} }} run {{ horizon 5; }}"
    with pytest.raises(RunError, match="ended at the instant"):
        records(source)


def test_choose_compares_as_numbers_do() -> None:
    """A NaN key never wins, and never loses when it is first (R-A-097)."""
    source = batch(
        "choose j in 3 by (j == 0 ? 0 / serial : -j); observe x = j; "
        "choose j in 3 by (j == 1 ? 0 / serial : -j); observe x = j; "
        "choose j in 0 by (j); observe x = j; choose j in 4 by (1, j == 2 ? 0 : 1); observe x = j;"
    )
    assert samples(source) == [0.0, 2.0, 0.0, 2.0]
