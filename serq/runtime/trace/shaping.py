"""New traces from old ones: another speed, a part of it, or a random sample of its sessions."""

from __future__ import annotations

from array import array
from itertools import pairwise
from math import fsum, inf

from serq.errors import UsageError
from serq.runtime.random import DrawStream, RandomSource
from serq.runtime.trace.columns import Trace

_WHICH_SESSION, _WHICH_GAP = 0, 1
"""The sites of the two draws of :func:`resample`."""


def speed_up(trace: Trace, factor: float) -> Trace:
    """The same sessions arriving ``factor`` times as fast; think times stay as they are.

    Raises UsageError for a trace without times or a factor that is not positive and finite.
    """
    if not 0 < factor < inf:
        raise UsageError(f"a speed of {factor:g}: it must be positive and finite")
    times = array("d", (time / factor for time in _times(trace, "speeding it up")))
    return trace.select(range(trace.sessions), times)


def cut_window(trace: Trace, start: float, stop: float) -> Trace:
    """The sessions that arrive in ``[start, stop)`` seconds; the first of them arrives at 0.

    Raises UsageError for a trace without times or where no session arrives in the window.
    """
    times = _times(trace, "cutting a time window")
    return _part(trace, [i for i, time in enumerate(times) if start <= time < stop], "window")


def cut_rows(trace: Trace, start: int, stop: int) -> Trace:
    """The sessions whose first row is one of ``start .. stop - 1``, counted from 0; the first arrives at 0.

    Raises UsageError where there is none.
    """
    first_rows = trace.first_row[:-1]
    return _part(trace, [i for i, row in enumerate(first_rows) if start <= row < stop], "range of rows")


def _part(trace: Trace, sessions: list[int], what: str) -> Trace:
    """Times are rounded to a nanosecond, so that they keep no dust of the subtraction."""
    if not sessions:
        raise UsageError(f"no session of the trace begins in this {what}")
    if trace.times is None:
        return trace.select(sessions, None)
    begin = trace.times[sessions[0]]
    return trace.select(sessions, array("d", (round(trace.times[i] - begin, 9) for i in sessions)))


def resample(trace: Trace, *, seed: int, sessions: int | None = None, rate: float | None = None) -> Trace:
    """A bootstrap of the trace: sessions drawn with replacement, ``sessions`` of them (default: as many).

    Gaps between arrivals are drawn with replacement from the gaps of the trace, scaled so that their mean is
    ``1 / rate`` (default: not scaled), which keeps how bursty single gaps are and drops how they follow each
    other. A trace without times, or with one instant only, gets exponential gaps where a ``rate`` is given.
    Raises UsageError for a rate or a number of sessions that is not positive.
    """
    count = trace.sessions if sessions is None else sessions
    if count < 1:
        raise UsageError(f"{count} sessions: at least one is needed")
    if rate is not None and not 0 < rate < inf:
        raise UsageError(f"a rate of {rate:g} sessions a second: it must be positive and finite")
    draws = RandomSource(seed).trace(0)
    picked = [draws.index(_WHICH_SESSION, trace.sessions) for _ in range(count)]
    return trace.select(picked, _resampled_times(trace, draws, count, rate))


def _resampled_times(trace: Trace, draws: DrawStream, count: int, rate: float | None) -> array[float] | None:
    if trace.times is None and rate is None:
        return None
    gaps = _gaps(trace)
    span = fsum(gaps)
    scale = 1.0 if rate is None or span == 0 else len(gaps) / (rate * span)
    now = 0.0
    times = array("d", [now])
    for _ in range(count - 1):
        if span > 0:
            now += gaps[draws.index(_WHICH_GAP, len(gaps))] * scale
        elif rate is not None:
            now += draws.exp(_WHICH_GAP, 1.0 / rate)
        times.append(now)
    return times


def _gaps(trace: Trace) -> list[float]:
    if trace.times is None:
        return []
    return [after - before for before, after in pairwise(sorted(trace.times))]


def _times(trace: Trace, purpose: str) -> array[float]:
    if trace.times is None:
        raise UsageError(f"the trace has no times, and {purpose} needs them")
    return trace.times
