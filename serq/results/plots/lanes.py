"""Waiting queues over time: who waits in which lane, and how long the oldest there has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING

from serq.errors import UsageError
from serq.results.plots.over_time import Slices
from serq.results.plots.style import entitle, legend, new_figure, styled
from serq.results.tables import member_namer
from serq.runtime.records import Records
from serq.runtime.request_records import EngineRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LANES = 8


@dataclass(frozen=True, slots=True)
class LaneTimeline:
    """One lane of an engine over slices of time.

    ``waiting`` is the mean number of requests in it, ``oldest`` how long the one that is there longest has
    waited at the middle of the slice; NaN where nobody does.
    """

    name: str
    time: Sequence[float]
    waiting: Sequence[float]
    oldest: Sequence[float]


def lane_timelines(records: Records) -> list[LaneTimeline]:
    """One entry a lane in which anybody waited, engine by engine. Raises UsageError where nobody did."""
    slices = Slices(0.0, records.end)
    found = []
    for engine in records.engines:
        name = member_namer(records.engines)(engine)
        for lane in dict.fromkeys(engine.queue.lane):
            spans = _spans(engine, lane, records.end)
            if spans:
                title = lane if len(records.engines) == 1 else f"{name}: {lane}"
                found.append(_timeline(title, spans, slices))
    if not found:
        raise UsageError("there is no lane to draw: no request waited for a `vllm` stage")
    return found[:_MOST_LANES]


def _spans(engine: EngineRow, lane: str, end: float) -> list[tuple[float, float]]:
    """From when to when requests waited in ``lane``, those that did not wait left out."""
    queue = engine.queue
    return [
        (entered, end if isnan(left) else left)
        for name, entered, left in zip(queue.lane, queue.entered, queue.left, strict=True)
        if name == lane and not left <= entered
    ]


def _timeline(name: str, spans: Sequence[tuple[float, float]], slices: Slices) -> LaneTimeline:
    starts, ends = zip(*spans, strict=True)
    lengths = [end - start for start, end in spans]
    middles, oldest = slices.middles(), [nan] * slices.count
    for start, end in spans:
        first = max(0, int((start - slices.start) / slices.width - 0.5))
        for place in range(first, slices.count):
            if middles[place] >= end:
                break
            if middles[place] >= start and not oldest[place] >= middles[place] - start:
                oldest[place] = middles[place] - start
    return LaneTimeline(name, middles, slices.total(starts, ends, lengths), oldest)


def lanes(records: Records, of: str = "") -> Figure:
    """Requests waiting in each lane, and the age of the oldest of them, over time."""
    rows = lane_timelines(records)
    with styled():
        figure, axes = new_figure(2, 1, height=4.2, sharex=True)
        (count,), (age,) = axes
        for row in rows:
            count.plot(row.time, row.waiting, label=row.name)
            age.plot(row.time, row.oldest, marker=".", markersize=3, label=row.name)
        count.set(ylabel="waiting", ylim=(0, None))
        age.set(ylabel="oldest waits [s]", xlabel="time [s]", ylim=(0, None))
        legend(count, ncols=4, loc="upper left", bbox_to_anchor=(0, 1.25))
        entitle(figure, "Waiting requests by lane of the queue", of)
    return figure
