"""Whether the declared warm-up is long enough, by MSER-5 on the observation that a run is mostly about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import compress
from math import hypot, isnan
from typing import Final, Protocol

import msgspec

from serq.ir import nodes
from serq.ir.figures import ENGINE_LATENCIES
from serq.results.metrics import REQUEST_METRICS, served_places
from serq.results.statistics import OrderedSamples, confidence, mean_of, mser5
from serq.results.tables import figure
from serq.runtime.records import Records

TTFT: Final = "ttft"
_ROUNDING: Final = 1e-9
"""How far two means may be apart, relative, that only rounding tells apart."""


class MainSeries(msgspec.Struct, frozen=True):
    """The samples that a run is mostly about, since warm-up, and when each was recorded.

    ``time`` gives that of the sample number i. Samples of requests stand in the order of sending and have the
    time at which the request ended.
    """

    name: str
    values: OrderedSamples
    time: Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Settling:
    """What is wrong with the warm-up: the series holds a beginning, or does not settle (``until`` None).

    ``dropped`` of its ``count`` samples stand before ``until``. ``before`` is the mean of all and ``after``
    that without them; where the series does not settle, those of its first and of its second half.
    """

    name: str
    count: int
    dropped: int
    until: float | None
    before: float
    after: float

    def note(self) -> str:
        """The suggestion, as the report makes it."""
        before, after = figure(self.before), figure(self.after)
        if self.until is None:
            return (
                f"`{self.name}` does not settle (MSER-5): its mean is {before} in the first half of the run "
                f"and {after} in the second; run longer, or look whether the load is more than is served"
            )
        return (
            f"`{self.name}` still warms up (MSER-5): without its first {self.dropped} of {self.count} "
            f"samples, up to {figure(self.until)}, its mean is {after}, with them {before}; "
            f"try `warmup {figure(self.until)}`"
        )


class HasSamples(Protocol):
    """What is asked of a summary."""

    @property
    def count(self) -> int:
        """How many samples it is of."""


def main_name(
    program: nodes.Program | None, summaries: Mapping[str, HasSamples], engines: bool
) -> str | None:
    """The series that a run is mostly about; that of requests where it is a latency and not an observation.

    What the first `slo` limits; without one time to first token where there are `vllm` stages, else the first
    observation with samples. None where there is nothing.
    """
    if program is not None and program.objectives:
        first = program.objectives[0]
        if first.source == "observation" or first.metric in ENGINE_LATENCIES:
            return first.metric
    if engines:
        return TTFT
    return next((name for name, summary in summaries.items() if summary.count), None)


def requests_series(records: Records, metric: str) -> tuple[list[float], list[float]]:
    """The latencies of the requests served since warm-up that have one, and when they ended."""
    table = records.requests
    places = served_places(table, records.warmup)
    values = REQUEST_METRICS[metric](table, places)
    known = [not isnan(value) for value in values]
    finish = table.finish
    return list(compress(values, known)), [finish[place] for place in compress(places, known)]


def settling(series: MainSeries) -> Settling | None:
    """What MSER-5 says of a series, where it matters; None where it does not, or cannot be told.

    A beginning matters where without it the mean is another one by more than the half-width of its 95 %
    interval; a series does not settle where MSER-5 finds its steadiest part in the second half and the means
    of the two halves are farther apart than their intervals together.
    """
    values = series.values
    found, count = mser5(values), len(values)
    if found is None or found.samples == 0:
        return None
    if found.settled:
        whole, rest = values, values.part(found.samples, count)
        width = confidence(rest)
        until: float | None = series.time(found.samples)
    else:
        whole, rest = values.part(0, count // 2), values.part(count // 2, count)
        width = hypot(confidence(whole), confidence(rest))
        until = None
    before, after = mean_of(whole), mean_of(rest)
    if abs(before - after) <= max(width, _ROUNDING * abs(after)):
        return None
    return Settling(series.name, count, found.samples, until, before, after)
