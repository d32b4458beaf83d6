"""What the requests of every engine saw: latencies of those that ran to their end, and how engines fared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

from serq.results import metrics
from serq.results.metrics import RAN_TO_THEIR_END
from serq.results.statistics import mean, quantile
from serq.runtime.records import Records
from serq.runtime.request_records import EngineRow, RequestTable


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean and quantiles of a time over requests, each the smallest time that so many stay within."""

    mean: float
    p50: float
    p99: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Latency:
        """The figures of ``times``; NaN where there are none, and those that are NaN left out."""
        known = [time for time in times if not isnan(time)]
        if not known:
            return cls(nan, nan, nan)
        return cls(mean(known), quantile(known, (50, 100)), quantile(known, (99, 100)))


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """The requests that ran to their end at one engine, at or after warm-up.

    ``ttft`` from sending to the first token, ``tpot`` per output token after the first, ``e2e`` from sending
    to the last.
    """

    row: EngineRow
    requests: int
    ttft: Latency
    tpot: Latency
    e2e: Latency


@dataclass(slots=True)
class RequestsElsewhere(RequestTable):
    """The requests of a run whose rows are not in memory; ``figures`` knows what they come to."""

    figures: Callable[[Records], list[EngineFigures]] = field(kw_only=True)


def engine_figures(records: Records) -> list[EngineFigures]:
    """The figures of every engine, in the order of declaration."""
    table = records.requests
    if isinstance(table, RequestsElsewhere):
        return table.figures(records)
    places: list[list[int]] = [[] for _ in records.engines]
    for place, (engine, reason) in enumerate(zip(table.engine, table.finish_reason, strict=True)):
        if reason in RAN_TO_THEIR_END and table.finish[place] >= records.warmup:
            places[engine].append(place)
    return [_figures(row, table, mine) for row, mine in zip(records.engines, places, strict=True)]


def _figures(row: EngineRow, table: RequestTable, places: list[int]) -> EngineFigures:
    return EngineFigures(
        row=row,
        requests=len(places),
        ttft=Latency.of([metrics.ttft(table, place) for place in places]),
        tpot=Latency.of([metrics.tpot(table, place) for place in places]),
        e2e=Latency.of([metrics.e2e(table, place) for place in places]),
    )
