"""The metrics of requests, each computed in one place: what objectives, tables and frames say is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Final

from serq.runtime.request_records import FINISH_REASONS, RequestTable

RAN_TO_THEIR_END: Final = frozenset(map(FINISH_REASONS.index, ("stop", "length", "repetition")))
"""The ends of requests that were served in full."""

UNFINISHED: Final = FINISH_REASONS.index("")


Metric = Callable[[RequestTable, Sequence[int]], list[float]]
"""What a metric is of the requests at some places of the table, in the order of the places."""


def ttft(table: RequestTable, places: Sequence[int]) -> list[float]:
    """From sending to the first token; NaN before it."""
    sent, first = table.sent, table.first_token
    return [first[place] - sent[place] for place in places]


def e2e(table: RequestTable, places: Sequence[int]) -> list[float]:
    """From sending to the last token; NaN unless the request was served in full."""
    sent, last, reasons = table.sent, table.last_token, table.finish_reason
    return [last[place] - sent[place] if reasons[place] in RAN_TO_THEIR_END else nan for place in places]


def normalized_latency(table: RequestTable, places: Sequence[int]) -> list[float]:
    """End-to-end latency per output token; NaN unless the request was served in full."""
    generated = table.generated
    times = zip(e2e(table, places), places, strict=True)
    return [time / generated[place] if generated[place] else nan for time, place in times]


def queue_time(table: RequestTable, places: Sequence[int]) -> list[float]:
    """From the engine's taking it in to its first admission; NaN before it."""
    queued, scheduled = table.queued, table.scheduled
    return [scheduled[place] - queued[place] for place in places]


def tpot(table: RequestTable, places: Sequence[int]) -> list[float]:
    """Time per output token after the first; NaN for fewer than two tokens."""
    return _per_gap(table, places, table.generated)


def itl(table: RequestTable, places: Sequence[int]) -> list[float]:
    """Mean gap between the steps that brought tokens; NaN for fewer than two."""
    return _per_gap(table, places, table.deliveries)


def _per_gap(table: RequestTable, places: Sequence[int], counts: Sequence[int]) -> list[float]:
    first, last = table.first_token, table.last_token
    return [
        (last[place] - first[place]) / (counts[place] - 1) if counts[place] > 1 else nan for place in places
    ]


REQUEST_METRICS: Final[Mapping[str, Metric]] = {
    "ttft": ttft,
    "tpot": tpot,
    "itl": itl,
    "e2e": e2e,
    "queue_time": queue_time,
}
"""The metrics by name; seconds by convention."""


def of_one(metric: Metric, table: RequestTable, place: int) -> float:
    """A metric of the request at ``place`` of the table."""
    return metric(table, (place,))[0]


def served_places(table: RequestTable, warmup: float) -> list[int]:
    """The places of the requests that were served in full at or after ``warmup``, in the order of sending."""
    reasons, finish = table.finish_reason, table.finish
    return [
        place for place in range(len(table)) if reasons[place] in RAN_TO_THEIR_END and finish[place] >= warmup
    ]
