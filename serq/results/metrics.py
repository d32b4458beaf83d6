"""The metrics of requests, each computed in one place: what objectives, tables and frames say is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from typing import Final

from serq.runtime.request_records import FINISH_REASONS, RequestTable

RAN_TO_THEIR_END: Final = frozenset(map(FINISH_REASONS.index, ("stop", "length", "repetition")))
"""The ends of requests that were served in full."""

UNFINISHED: Final = FINISH_REASONS.index("")


def ttft(table: RequestTable, place: int) -> float:
    """From sending to the first token; NaN before it."""
    return table.first_token[place] - table.sent[place]


def e2e(table: RequestTable, place: int) -> float:
    """From sending to the last token; NaN unless the request was served in full."""
    served = table.finish_reason[place] in RAN_TO_THEIR_END
    return table.last_token[place] - table.sent[place] if served else nan


def normalized_latency(table: RequestTable, place: int) -> float:
    """End-to-end latency per output token; NaN unless the request was served in full."""
    generated = table.generated[place]
    return e2e(table, place) / generated if generated else nan


def queue_time(table: RequestTable, place: int) -> float:
    """From the engine's taking it in to its first admission; NaN before it."""
    return table.scheduled[place] - table.queued[place]


def tpot(table: RequestTable, place: int) -> float:
    """Time per output token after the first; NaN for fewer than two tokens."""
    return _per_gap(table, place, table.generated[place])


def itl(table: RequestTable, place: int) -> float:
    """Mean gap between the steps that brought tokens; NaN for fewer than two."""
    return _per_gap(table, place, table.deliveries[place])


def _per_gap(table: RequestTable, place: int, count: int) -> float:
    return (table.last_token[place] - table.first_token[place]) / (count - 1) if count > 1 else nan


REQUEST_METRICS: Final[Mapping[str, Callable[[RequestTable, int], float]]] = {
    "ttft": ttft,
    "tpot": tpot,
    "itl": itl,
    "e2e": e2e,
    "queue_time": queue_time,
}
"""Metric -> its value for the request at a place of the table; seconds by convention."""


def served_places(table: RequestTable, warmup: float) -> list[int]:
    """The places of the requests that were served in full at or after ``warmup``, in the order of sending."""
    reasons, finish = table.finish_reason, table.finish
    return [
        place for place in range(len(table)) if reasons[place] in RAN_TO_THEIR_END and finish[place] >= warmup
    ]
