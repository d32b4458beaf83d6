"""Objectives (`slo`): the share of requests within their limits, and goodput (design_language.md).

What counts are the requests that ended at or after warm-up, and those that had not ended. A request that
waits so long that it cannot stay within a limit any more has missed it already; any other unfinished one is
undecided and left out of shares. One that was turned away, failed, or was given up has missed its end-to-end
limit and every metric that it never reached. A request of one token has no time per output token, and such a
limit says nothing about it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf, isnan, nan
from typing import Final

from serq.ir.expectations import Objective
from serq.ir.figures import QUANTILES
from serq.ir.printer import number, objective
from serq.results.metrics import RAN_TO_THEIR_END, REQUEST_METRICS, UNFINISHED, of_one
from serq.results.statistics import mean, quantile, share_interval
from serq.runtime.records import Records
from serq.runtime.request_records import RequestTable

_COMPARE: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Verdict(Enum):
    """How a request stands to a limit."""

    WITHIN = "within"
    MISSED = "missed"
    OPEN = "undecided"
    NONE = "not applicable"


_DECIDED: Final = (Verdict.WITHIN, Verdict.MISSED)


@dataclass(frozen=True, slots=True)
class ObjectiveRow:
    """How one objective was kept.

    ``measured`` is the statistic itself, infinite where too many requests never reached the metric.
    ``within`` is the share of the ``requests`` that are decided, with its 95 % interval from ``low`` to
    ``high``; NaN for an objective of the mean. ``met`` is None where nothing was decided.
    """

    objective: str
    requests: int
    undecided: int
    measured: float
    within: float
    low: float
    high: float
    met: bool | None


@dataclass(frozen=True, slots=True)
class GoodputRow:
    """Requests served in full within all limits of their class: how many, per second, and as a share.

    ``about`` is `all`, or the class; the share is of the requests that are decided.
    """

    about: str
    good: int
    per_second: float
    share: float
    low: float
    high: float


def objective_rows(objectives: Iterable[Objective], records: Records) -> list[ObjectiveRow]:
    """One row an objective, in their order."""
    return [_row(node, records) for node in objectives]


def goodput_rows(objectives: Sequence[Objective], records: Records) -> list[GoodputRow]:
    """Goodput of all requests, then of every class that requests have; none without an objective.

    In a program without requests every observed turn of a session counts as one.
    """
    if not objectives:
        return []
    limits = [node for node in objectives if node.statistic in QUANTILES]
    missed = set(_turns_that_missed(limits, records))
    if not len(records.requests):
        turns = dict.fromkeys(_observed_turns(objectives, records))
        return [_goodput("all", [turn not in missed for turn in turns], records)]
    verdicts = list(_judged(limits, missed, records))
    labels = sorted({label for label, _ in verdicts if not isnan(label)})
    rows = [_goodput("all", [good for _, good in verdicts], records)]
    for label in labels:
        mine = [good for other, good in verdicts if other == label]
        rows.append(_goodput(f"class {number(label)}", mine, records))
    return rows


def _goodput(about: str, verdicts: list[bool], records: Records) -> GoodputRow:
    good, span = sum(verdicts), records.end - records.warmup
    share = good / len(verdicts) if verdicts else nan
    return GoodputRow(about, good, good / span if span > 0 else nan, share, *share_interval(verdicts))


# --- one objective ------------------------------------------------------------------------------------------


def _row(node: Objective, records: Records) -> ObjectiveRow:
    verdicts, values = _samples(node, records) if node.source == "observation" else _requests(node, records)
    decided = [verdict is Verdict.WITHIN for verdict in verdicts if verdict in _DECIDED]
    undecided = verdicts.count(Verdict.OPEN)
    text = objective(node)
    if not decided:
        return ObjectiveRow(text, 0, undecided, nan, nan, nan, nan, None)
    if node.statistic == "mean":
        measured = mean(values) if values else nan
        met = _COMPARE[node.comparison](measured, node.limit)
        return ObjectiveRow(text, len(decided), undecided, measured, nan, nan, nan, met)
    fraction = QUANTILES[node.statistic]
    worst = inf if node.comparison.startswith("<") else -inf
    values += [worst] * (len(decided) - len(values))
    within = sum(decided) / len(decided)
    met = sum(decided) * fraction[1] >= fraction[0] * len(decided)
    share = fraction if worst > 0 else (fraction[1] - fraction[0], fraction[1])
    measured = quantile(values, share)
    return ObjectiveRow(
        text, len(decided), undecided, measured, within, *share_interval(decided), met
    )


def _samples(node: Objective, records: Records) -> tuple[list[Verdict], list[float]]:
    values = records.series[node.metric].values
    return [_within(node, value) for value in values], list(values)


def _requests(node: Objective, records: Records) -> tuple[list[Verdict], list[float]]:
    table, metric = records.requests, REQUEST_METRICS[node.metric]
    places = [place for place in _counted(records) if _is_about(node, table.label[place])]
    verdicts = [_verdict(node, table, place, records.end) for place in places]
    decided = [place for place, verdict in zip(places, verdicts, strict=True) if verdict in _DECIDED]
    return verdicts, [value for value in metric(table, decided) if not isnan(value)]


def _counted(records: Records) -> Iterator[int]:
    """The places of requests that ended at or after warm-up or not at all, in the order of sending."""
    finish = records.requests.finish
    return (place for place in range(len(finish)) if not finish[place] < records.warmup)


def _is_about(node: Objective, label: float) -> bool:
    return node.label is None or node.label == label


def _within(node: Objective, value: float) -> Verdict:
    return Verdict.WITHIN if _COMPARE[node.comparison](value, node.limit) else Verdict.MISSED


def _verdict(node: Objective, table: RequestTable, place: int, end: float) -> Verdict:
    value = of_one(REQUEST_METRICS[node.metric], table, place)
    per_token = node.metric in ("tpot", "itl")
    if table.finish_reason[place] == UNFINISHED:
        if per_token:
            return Verdict.OPEN
        return _within(node, value) if not isnan(value) else _so_far(node, table, place, end)
    if not isnan(value):
        return _within(node, value)
    served = table.finish_reason[place] in RAN_TO_THEIR_END
    return Verdict.NONE if per_token and served else Verdict.MISSED


def _so_far(node: Objective, table: RequestTable, place: int, end: float) -> Verdict:
    """How a time that has not come yet stands to its limit: at least what has passed at ``end``."""
    passed = end - (table.queued if node.metric == "queue_time" else table.sent)[place]
    if isnan(passed):
        return Verdict.OPEN
    if node.comparison.startswith("<"):
        return Verdict.OPEN if _within(node, passed) is Verdict.WITHIN else Verdict.MISSED
    return Verdict.WITHIN if _within(node, passed) is Verdict.WITHIN else Verdict.OPEN


# --- goodput ------------------------------------------------------------------------------------------------

_Turn = tuple[int, float]
"""A session and its turn."""


def _judged(limits: list[Objective], missed: set[_Turn], records: Records) -> Iterator[tuple[float, bool]]:
    """The class of every decided request, and whether it is good."""
    table = records.requests
    of_requests = [node for node in limits if node.source == "request"]
    for place in _counted(records):
        label = table.label[place]
        verdicts = [_verdict(n, table, place, records.end) for n in of_requests if _is_about(n, label)]
        reason = table.finish_reason[place]
        if Verdict.MISSED in verdicts or (table.session[place], table.turn[place]) in missed:
            yield label, False
        elif reason != UNFINISHED:
            yield label, reason in RAN_TO_THEIR_END


def _turns_that_missed(limits: Iterable[Objective], records: Records) -> Iterator[_Turn]:
    """The turns with a sample beyond the limit of an observation."""
    for node in limits:
        if node.source == "observation":
            series = records.series[node.metric]
            for session, turn, value in zip(series.sessions, series.turns, series.values, strict=True):
                if _within(node, value) is Verdict.MISSED:
                    yield session, turn


def _observed_turns(objectives: Iterable[Objective], records: Records) -> Iterator[_Turn]:
    for node in objectives:
        if node.source == "observation":
            series = records.series[node.metric]
            yield from zip(series.sessions, series.turns, strict=True)
