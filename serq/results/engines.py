"""What the requests of every engine saw: latencies of those that ran to their end, and how engines fared."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import Final

import msgspec

from serq.ir.figures import ENGINE_LATENCIES, QUANTILES
from serq.results import metrics
from serq.results.statistics import (
    OrderedSamples,
    confidence,
    in_memory,
    mean_of,
    quantile_interval,
    rank,
)
from serq.runtime.records import Records
from serq.runtime.request_records import EngineRow, RequestTable


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean and quantiles of a time over requests, each the smallest time that so many stay within.

    ``ci`` is the half-width of the 95 % interval of the mean by batch means, ``p50_low`` and so on the ends
    of the intervals of the quantiles; NaN (and ``ci`` infinite) where the requests are too few to tell.
    """

    mean: float
    p50: float
    p99: float
    p90: float = nan
    ci: float = inf
    p50_low: float = nan
    p50_high: float = nan
    p90_low: float = nan
    p90_high: float = nan
    p99_low: float = nan
    p99_high: float = nan

    @classmethod
    def of(cls, times: Sequence[float]) -> Latency:
        """The figures of ``times``; NaN where there are none, and those that are NaN left out."""
        return cls.of_samples(in_memory(array("d", times)).numbers())

    @classmethod
    def of_samples(cls, times: OrderedSamples) -> Latency:
        """The figures of ``times``, wherever they are, in the order of sending; none of them NaN."""
        count = len(times)
        if not count:
            return cls(nan, nan, nan)
        p50, p90, p99 = times.at_ranks([rank(QUANTILES[name], count) for name in ("p50", "p90", "p99")])
        p50_low, p50_high = quantile_interval(times, QUANTILES["p50"], p50)
        p90_low, p90_high = quantile_interval(times, QUANTILES["p90"], p90)
        p99_low, p99_high = quantile_interval(times, QUANTILES["p99"], p99)
        ci = confidence(times)
        ends = (p50_low, p50_high, p90_low, p90_high, p99_low, p99_high)
        return cls(mean_of(times), p50, p99, p90, ci, *ends)


_UNKNOWN: Final = Latency(nan, nan, nan)


class EngineFigures(msgspec.Struct, frozen=True):
    """The requests that ran to their end at one engine, at or after warm-up.

    ``ttft`` from sending to the first token, ``tpot`` per output token after the first, ``e2e`` from sending
    to the last, ``normalized_latency`` the same per output token. ``input_tokens`` are those of their
    prompts, cached ones too, ``output_tokens`` those they got; ``span`` is the time from warm-up to the end.
    """

    row: EngineRow
    requests: int
    ttft: Latency
    tpot: Latency
    e2e: Latency
    normalized_latency: Latency = _UNKNOWN
    input_tokens: int = 0
    output_tokens: int = 0
    span: float = nan

    @property
    def request_throughput(self) -> float:
        """Requests a second."""
        return self._per_second(self.requests)

    @property
    def input_throughput(self) -> float:
        """Prompt tokens of these requests, a second."""
        return self._per_second(self.input_tokens)

    @property
    def output_throughput(self) -> float:
        """Output tokens of these requests, a second."""
        return self._per_second(self.output_tokens)

    def _per_second(self, total: int) -> float:
        return total / self.span if self.span > 0 else nan


METRICS: Final = ENGINE_LATENCIES
"""The latencies of an engine."""


@dataclass(slots=True)
class RequestsElsewhere(RequestTable):
    """The requests of a run whose rows are not in memory; ``figures`` knows what they come to."""

    figures: Callable[[Records], list[EngineFigures]] = field(kw_only=True)


def engine_figures(records: Records) -> list[EngineFigures]:
    """The figures of every engine, in the order of declaration."""
    table = records.requests
    if isinstance(table, RequestsElsewhere):
        return table.figures(records)
    engine, places = table.engine, [list[int]() for _ in records.engines]
    for place in metrics.served_places(table, records.warmup):
        places[engine[place]].append(place)
    span = records.end - records.warmup
    return [_figures(row, table, mine, span) for row, mine in zip(records.engines, places, strict=True)]


def _figures(row: EngineRow, table: RequestTable, places: list[int], span: float) -> EngineFigures:
    return EngineFigures(
        row=row,
        requests=len(places),
        ttft=latency_of(metrics.ttft, table, places),
        tpot=latency_of(metrics.tpot, table, places),
        e2e=latency_of(metrics.e2e, table, places),
        normalized_latency=latency_of(metrics.normalized_latency, table, places),
        input_tokens=sum(map(table.prompt_tokens.__getitem__, places)),
        output_tokens=sum(map(table.generated.__getitem__, places)),
        span=span,
    )


def latency_of(metric: metrics.Metric, table: RequestTable, places: Sequence[int]) -> Latency:
    """The figures of ``metric`` over the requests at ``places``."""
    return Latency.of(metric(table, places))
