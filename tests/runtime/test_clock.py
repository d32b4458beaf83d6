from __future__ import annotations

from math import inf

from serq.runtime.clock import Clock


def happenings(clock: Clock, horizon: float = inf) -> int:
    count = 0
    while clock.advance(horizon):
        count += 1
    return count


def test_times_are_absolute() -> None:
    """0.7 + (2.9 - 0.7) is not 2.9: a delay would miss the instant."""
    assert 0.7 + (2.9 - 0.7) != 2.9
    clock, seen = Clock(), []
    clock.at(0.7, lambda: clock.at(2.9, lambda: seen.append(clock.now)))
    happenings(clock)
    assert seen == [2.9]


def test_what_was_scheduled_first_happens_first() -> None:
    """R-B-002: at 2, the event that was scheduled at 0 comes before the one scheduled at 1."""
    clock, seen = Clock(), []
    clock.at(1.0, lambda: clock.at(2.0, lambda: seen.append("late")))
    clock.at(2.0, lambda: seen.append("first"))
    clock.at(2.0, lambda: seen.append("second"))
    happenings(clock)
    assert seen == ["first", "second", "late"]


def test_rank_orders_what_engines_schedule_at_one_instant() -> None:
    """Engine 0 plans its step end after engine 1 here; the key, not the order of calls, decides."""
    clock, seen = Clock(), []
    clock.at(1.0, lambda: seen.append("session"))
    clock.begin_starts()
    clock.at(1.0, lambda: seen.append("engine 1"), rank=3)
    clock.at(1.0, lambda: seen.append("engine 0"), rank=1)
    happenings(clock)
    assert seen == ["session", "engine 0", "engine 1"]


def test_the_horizon_is_inclusive() -> None:
    clock, seen = Clock(), []
    for time in (1.0, 2.0, 2.0, 2.5):
        clock.at(time, lambda: seen.append(clock.now))
    assert happenings(clock, 2.0) == 3
    assert seen == [1.0, 2.0, 2.0] and clock.next_time() == 2.5


def test_a_cancelled_event_stays_an_event_and_does_nothing() -> None:
    clock, seen = Clock(), []
    ticket = clock.at(1.0, lambda: seen.append("never"))
    ticket.cancel()
    assert happenings(clock) == 1 and not seen and clock.now == 1.0


def test_an_infinite_time_never_comes() -> None:
    clock = Clock()
    clock.at(inf, lambda: None)
    assert clock.next_time() == inf and not clock.advance(inf)
