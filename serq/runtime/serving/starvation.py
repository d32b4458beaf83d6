"""Requests that wait far longer than their queue lets others wait, while later ones pass them."""

from __future__ import annotations

from math import ceil, inf, isnan
from typing import Final

from serq.runtime.request_records import RequestTable
from serq.source import Diagnostic

_TIMES_P99: Final = 10.0
_ENOUGH: Final = 100
"""Admitted requests from which on a 99 % quantile says something."""


def starved_requests(table: RequestTable, engine: int, now: float) -> tuple[list[int], float]:
    """Places of the starved requests of ``engine``, longest wait first, and the 99 % quantile of its waits.

    Starved is who waited, or waits, over ten times that quantile and was passed by somebody who was queued
    later. Nobody is where fewer than 100 were admitted or the quantile is 0.
    """
    places = [
        place
        for place, number in enumerate(table.engine)
        if number == engine and not isnan(table.queued[place])
    ]
    admitted = sorted(_wait(table, place, now) for place in places if not isnan(table.scheduled[place]))
    p99 = admitted[ceil(0.99 * len(admitted)) - 1] if len(admitted) >= _ENOUGH else 0.0
    if p99 <= 0.0:
        return [], p99
    places.sort(key=lambda place: table.queued[place], reverse=True)
    starved = []
    earliest = inf
    for place in places:
        scheduled = table.scheduled[place]
        wait = _wait(table, place, now)
        if wait > _TIMES_P99 * p99 and earliest < table.queued[place] + wait:
            starved.append(place)
        earliest = min(earliest, inf if isnan(scheduled) else scheduled)
    return sorted(starved, key=lambda place: (-_wait(table, place, now), place)), p99


def _wait(table: RequestTable, place: int, now: float) -> float:
    """How long a request waited to be admitted: to its end, or till now, if it never was."""
    for end in (table.scheduled[place], table.finish[place]):
        if not isnan(end):
            return end - table.queued[place]
    return now - table.queued[place]


def starvation_warning(
    table: RequestTable, engine: int, name: str, stage: str, now: float
) -> list[Diagnostic]:
    """The warning about the starved requests of ``engine``, if there are any."""
    starved, p99 = starved_requests(table, engine, now)
    if not starved:
        return []
    worst = starved[0]
    others = f", and {len(starved) - 1} more like it" if len(starved) > 1 else ""
    return [
        Diagnostic(
            "starvation",
            f"request {worst} of session {table.session[worst]} waited {_wait(table, worst, now):.6g} at "
            f"`{name}`, over ten times the 99 % quantile of waits there ({p99:.6g}), while later ones were "
            f"admitted{others}",
            owner=f"stage `{stage}`",
            severity="warning",
            help="its order of waiting lets others pass for ever; give it a bound, such as aging",
        )
    ]
