"""Requests that wait far longer than their queue lets others wait, while later ones pass them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from math import ceil, inf, isnan
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from serq.runtime.request_records import RequestTable
from serq.source import Diagnostic

_TIMES_P99: Final = 10.0
_ENOUGH: Final = 100
"""Admitted requests from which on a 99 % quantile says something."""


class Wait(NamedTuple):
    """When a request was taken in, first admitted and let go of; NaN: it never was."""

    request: int
    session: int
    queued: float
    scheduled: float
    finish: float

    def length(self, now: float) -> float:
        """How long it waited to be admitted: to its end, or till now, if it never was."""
        for end in (self.scheduled, self.finish):
            if not isnan(end):
                return end - self.queued
        return now - self.queued


class Waits(Protocol):
    """The requests of one engine that it has taken in."""

    def latest_first(self) -> Iterator[Wait]:
        """Those taken in last come first, whatever their order at one instant."""

    def admitted(self) -> int:
        """How many were admitted."""

    def admitted_at_rank(self, rank: int) -> float:
        """The wait at ``rank``, from 0, if those of the admitted were sorted."""


class InMemoryWaits:
    """The requests of engine number ``engine`` in a table that has all of them."""

    def __init__(self, table: RequestTable, engine: int) -> None:
        columns = (table.engine, table.session, table.queued, table.scheduled, table.finish)
        self._rows = [
            (place, *row[1:])  # a tuple as Wait has it: there may be a million
            for place, row in enumerate(zip(*columns, strict=True))
            if row[0] == engine and row[2] >= 0.0  # NaN: it was never taken in
        ]
        self._lengths = sorted(row[3] - row[2] for row in self._rows if row[3] >= 0.0)

    def latest_first(self) -> Iterator[Wait]:
        """Those taken in last come first."""
        return map(Wait._make, sorted(self._rows, key=itemgetter(2), reverse=True))

    def admitted(self) -> int:
        """How many were admitted."""
        return len(self._lengths)

    def admitted_at_rank(self, rank: int) -> float:
        """The wait at ``rank``, from 0, if those of the admitted were sorted."""
        return self._lengths[rank]


def _p99_rank(count: int) -> int:
    """The place of the 99 % quantile among ``count`` waits in order."""
    return ceil(0.99 * count) - 1


def quantile_of_waits(waits: Waits) -> float:
    """The 99 % quantile of the waits of the admitted; 0 for fewer than 100 of them, which tell nothing."""
    count = waits.admitted()
    return waits.admitted_at_rank(_p99_rank(count)) if count >= _ENOUGH else 0.0


def anybody_waits_long(table: RequestTable, engine: int, now: float) -> bool:
    """Whether a wait at engine number ``engine`` is over ten times the 99 % quantile of the admitted there.

    Told without sorting: the quantile is a tenth of the longest wait or more where enough waits are. False
    for fewer than 100 admitted, as nothing is said of them.
    """
    times = zip(table.engine, table.queued, table.scheduled, strict=True)
    waits = [start - queued for at, queued, start in times if at == engine and queued >= 0.0 and start >= 0.0]
    count = len(waits)
    if count < _ENOUGH:
        return False
    longest = max(waits)
    longest = max(longest, _longest_unadmitted(table, engine, now))
    long_waits = (wait for wait in waits if _TIMES_P99 * wait >= longest)
    return next(islice(long_waits, count - _p99_rank(count) - 1, None), None) is None


def _longest_unadmitted(table: RequestTable, engine: int, now: float) -> float:
    """The longest wait, till ``now``, of those taken in and never admitted; 0 if there is none."""
    places = [place for place, start in enumerate(table.scheduled) if not start >= 0.0]
    return max(
        (
            Wait(place, 0, table.queued[place], table.scheduled[place], table.finish[place]).length(now)
            for place in places
            if table.engine[place] == engine and table.queued[place] >= 0.0
        ),
        default=0.0,
    )


def starved_requests(latest_first: Iterable[Wait], p99: float, now: float) -> Iterator[Wait]:
    """Who waited, or waits, over ten times ``p99`` and was passed by somebody who was taken in later.

    Of those taken in at one instant, the one with the larger number came later.
    """
    earliest = inf
    for _, group in groupby(latest_first, key=lambda wait: wait.queued):
        for wait in sorted(group, reverse=True):
            length = wait.length(now)
            if length > _TIMES_P99 * p99 and earliest < wait.queued + length:
                yield wait
            earliest = min(earliest, inf if isnan(wait.scheduled) else wait.scheduled)


def starvation_warning(waits: Waits, name: str, stage: str, now: float) -> list[Diagnostic]:
    """The warning about the starved requests of an engine, if there are any."""
    p99 = quantile_of_waits(waits)
    if p99 <= 0.0:
        return []
    count, worst = 0, None
    for wait in starved_requests(waits.latest_first(), p99, now):
        count += 1
        if worst is None or (-wait.length(now), wait.request) < (-worst.length(now), worst.request):
            worst = wait
    if worst is None:
        return []
    others = f", and {count - 1} more like it" if count > 1 else ""
    return [
        Diagnostic(
            "starvation",
            f"request {worst.request} of session {worst.session} waited {worst.length(now):.6g} at "
            f"`{name}`, over ten times the 99 % quantile of waits there ({p99:.6g}), while later ones were "
            f"admitted{others}",
            owner=f"stage `{stage}`",
            severity="warning",
            help="its order of waiting lets others pass for ever; give it a bound, such as aging",
        )
    ]


def starvation_in_memory(
    table: RequestTable, engine: int, name: str, stage: str, now: float
) -> list[Diagnostic]:
    """The same of engine number ``engine``, all of whose requests are in ``table``."""
    if not anybody_waits_long(table, engine, now):
        return []
    return starvation_warning(InMemoryWaits(table, engine), name, stage, now)
