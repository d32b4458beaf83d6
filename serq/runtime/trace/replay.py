"""Which sessions of a trace a workload replays, in which order and when (R-B-081, R-B-083)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from serq.runtime.trace.columns import Trace
from serq.runtime.trace.reading import TraceFile

TraceSource = Trace | TraceFile
"""A trace, in memory or in a file that is read while it is used."""
TracedSession = tuple[Trace, int, int]
"""A part of a trace, and which rows of it are a session: from, up to."""


def in_file_order(trace: TraceSource) -> Iterator[TracedSession]:
    """The sessions of ``trace`` in the order of the file, then again from its begin, for ever (R-B-081)."""
    while True:
        for part in trace.parts():
            yield from _sessions(part)


def in_order_of_time(trace: TraceSource, speed: float) -> Iterator[tuple[float, TracedSession]]:
    """Every session once with its time of arrival, ``speed`` times as fast, the first at 0.

    Sessions of one instant come in the order of the file. The trace has times. Where they run backwards all
    of it is held in memory.
    """
    if not trace.in_order:
        yield from _sorted(trace.loaded(), speed)
        return
    first: float | None = None
    for part in trace.parts():
        if not part.times:
            continue
        start = first = part.times[0] if first is None else first
        times = [(time - start) / speed for time in part.times]
        yield from zip(times, _sessions(part), strict=True)


def _sessions(part: Trace) -> Iterator[TracedSession]:
    return zip(repeat(part), part.first_row, part.first_row[1:], strict=False)


def _sorted(trace: Trace, speed: float) -> Iterator[tuple[float, TracedSession]]:
    times = trace.times or ()
    first = min(times)
    for time, session in sorted(((time - first) / speed, session) for session, time in enumerate(times)):
        yield time, (trace, trace.first_row[session], trace.first_row[session + 1])
