"""What the requests of every engine saw: latencies of those that ran to their end, and how engines fared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, isnan, nan
from typing import Final

from serq.results.statistics import mean
from serq.runtime.records import Records
from serq.runtime.request_records import FINISH_REASONS, EngineRow, RequestTable

RAN_TO_THEIR_END: Final = ("stop", "length", "repetition")
"""Finish reasons of requests that latencies are measured on."""
_REASONS: Final = frozenset(map(FINISH_REASONS.index, RAN_TO_THEIR_END))


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean and quantiles of a time over requests, each the smallest time that so many stay within."""

    mean: float
    p50: float
    p99: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Latency:
        """The figures of ``times``; NaN where there are none, and those that are NaN left out."""
        ordered = sorted(time for time in times if not isnan(time))
        if not ordered:
            return cls(nan, nan, nan)
        return cls(mean(ordered), *(ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.99)))


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
        if reason in _REASONS and table.finish[place] >= records.warmup:
            places[engine].append(place)
    return [_figures(row, table, mine) for row, mine in zip(records.engines, places, strict=True)]


def _figures(row: EngineRow, table: RequestTable, places: list[int]) -> EngineFigures:
    sent, first, last, generated = table.sent, table.first_token, table.last_token, table.generated
    return EngineFigures(
        row=row,
        requests=len(places),
        ttft=Latency.of([first[i] - sent[i] for i in places]),
        tpot=Latency.of([(last[i] - first[i]) / (generated[i] - 1) for i in places if generated[i] > 1]),
        e2e=Latency.of([last[i] - sent[i] for i in places]),
    )
