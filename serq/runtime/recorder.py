"""What `observe` calls: it appends a sample to a series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from serq.runtime.clock import Clock
from serq.runtime.records import Series
from serq.runtime.session import Session

_LARGEST_TURN: Final = 2.0**32 - 1.0


def recorder(series: Series, clock: Clock, warmup: float) -> Callable[[Session, float], None]:
    """What appends a sample to ``series``, from ``warmup`` on (R-A-100)."""
    value, time = series.values.append, series.times.append
    number, turn = series.sessions.append, series.turns.append

    def record(session: Session, sample: float) -> None:
        now = clock.now
        if now >= warmup:
            value(sample)
            time(now)
            number(session.number)
            count = session.a_turn_no
            turn(count if count == 1.0 else turn_number(count))

    return record


def turn_number(value: float) -> float:
    """`turn_no`, whatever the program made of it, as samples carry it: a whole number from 0 (R-A-085)."""
    return float(int(min(value, _LARGEST_TURN))) if value >= 1.0 else 0.0
