"""Holds beyond what the recordings show: where the reference is wrong, and laws of queues and pools."""

from __future__ import annotations

import random
from typing import Any

import pytest

from serq.runtime.hold_queue import ChangingKeyQueue, FixedKeyQueue
from tests.runtime.programs import batch, records, samples


class Waiting:
    """A hold as queues see it."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.order = 0
        self.session = self


@pytest.mark.parametrize("seed", range(20))
def test_keys_that_stand_still_need_reading_only_once(seed: int) -> None:
    """Both queues select the same hold after any joins, preemptions, admissions and withdrawals."""
    draw = random.Random(seed)
    fixed: Any = FixedKeyQueue(lambda session, hold: (hold.key,))  # type: ignore[attr-defined]
    changing: Any = ChangingKeyQueue(lambda session, hold: (hold.key,))  # type: ignore[attr-defined]
    present: list[Waiting] = []
    for _ in range(300):
        action = draw.choice(["join", "join", "rejoin", "admit", "withdraw"])
        if action in ("join", "rejoin"):
            hold = Waiting(draw.randrange(5))
            present.append(hold)
            for queue in (fixed, changing):
                getattr(queue, action)(hold)
        elif present:
            hold = changing.head() if action == "admit" else draw.choice(present)
            present.remove(hold)
            for queue in (fixed, changing):
                queue.remove(hold)
        assert len(fixed) == len(changing) == len(present)
        if present:
            assert fixed.head() is changing.head()


SPILLING = """
pool p { cap 10; spill tier via d (0.5) when (size > 1); }
pool tier { cap 7; }
"""


def test_spilling_never_overfills_the_tier() -> None:
    """The reference holds 9 of 7 (R-A-089). Here the older piece of 5 makes way for the newer one of 4."""
    session = """
    branch (serial) { run d (1); hold p (8) { run d (0.5); } run d (3.5); hold p (8) { run d (0.5); } end; }
    hold p (5) { } cache (5)
    run d (2); observe x = cachedin(tier);
    run d (1); hold p (4) { } cache (4)
    run d (3); observe x = cachedin(tier);
    """
    run = records(batch(session, SPILLING, count=2))
    assert run.series["x"].values == [5.0, 4.0]
    assert run.pools[0].spills == 2 and run.pools[1].evicted_units == 5.0


def test_a_piece_that_cannot_be_put_in_the_tier_is_lost() -> None:
    """All of the tier is allocated when the piece comes."""
    session = """
    branch (serial) { hold tier (6) { run d (1); hold p (8) { run d (1); } } end; }
    hold p (5) { } cache (5)
    run d (3); observe x = cachedin(tier);
    """
    assert samples(batch(session, SPILLING, count=2)) == [0.0]


def test_a_shared_station_above_the_engine_gets_the_work_of_those_it_admits() -> None:
    """The reference forgets a job that starts at a `ps` stage while a later stage forms an iteration."""
    session = "hold k (1) { run p (1); observe x = now; run g decode (1); observe x = now; }"
    stages = "stage p : ps(1); stage g : step { cost 3; } pool k { cap 1; admit via g; }"
    assert samples(batch(session, stages)) == [1.0, 4.0]


def test_a_victim_that_was_served_loses_its_tokens() -> None:
    """The reference panics (R-B-049).

    Both prefills take 1.04 and all memory but one unit. Then the shortest is served first: session 1, with
    that unit, until session 0 needs it. Session 1 loses hold and token; the iteration has one token. It is
    admitted again at 2.05 and loses its hold once more, before it is served.
    """
    session = """
    hold kv (2) { run g prefill (2) growing kv; observe x = now;
                  run g decode (serial ? 1 : 2) growing kv; observe x = now; }
    """
    engine = """
    pool kv { cap 5; preempt lifo; }
    stage g : step { cost 1 + tokens / 100; memory kv; serve by (remaining); }
    """
    run = records(batch(session, engine, count=2, horizon=3.06))
    assert run.series["x"].times == pytest.approx([1.04, 1.04, 3.06])
    assert run.pools[0].preemptions == 2 and run.stages[1].iterations == 4
    assert run.series["x"].sessions == [0, 1, 0]


def test_slots_of_a_preempted_hold_that_found_all_its_tokens_leave_nothing() -> None:
    """R-A-079: it had nothing to compute, and is preempted before its next token."""
    session = """
    branch (serial == 0) { hold kv (4) { run d (2); grow kv (4); run d (9); } end; }
    hold slot (1), kv (4) { run g prefill (4) growing kv; } cache (9)
    hold slot (1), kv (4) { run g prefill (4 - cached) growing kv; run d (9); } cache (9)
    """
    pools = "pool slot { cap 4; } pool kv { cap 10; preempt lifo; } stage g : step { cost 1; }"
    run = records(batch(session + "observe x = cachedin(slot);", pools, count=2, horizon=3))
    assert run.pools[1].preemptions == 1 and run.pools[0].mean_cached == 0.0


def test_who_waits_for_ever_is_named() -> None:
    """Two growers that both need the other to leave (R-A-060)."""
    run = records(batch("hold p (3) { run d (1); grow p (5); }", "pool p { cap 8; }", count=2))
    (warning,) = run.warnings
    assert warning.code == "waits-for-ever"
    assert "2 session(s)" in warning.message and "session 0" in warning.message


def test_infinite_units_leave_a_number_behind() -> None:
    """Infinity minus infinity is not a number; what others hold is counted anew."""
    session = """
    set z = 0;
    branch (serial) { hold p (1 / z) { run d (1); } end; }
    hold p (3) { run d (2); observe x = used(p); }
    observe x = used(p);
    """
    assert samples(batch(session, "pool p { }", count=2)) == [3.0, 0.0]
