"""What a comparison reads off one run: its figures, and which way is better for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan, nan
from typing import Final, Literal, NamedTuple

from serq.ir.expectations import Objective
from serq.ir.figures import QUANTILES
from serq.results import Report
from serq.results.metrics import REQUEST_METRICS, served_places
from serq.results.statistics import mean, quantile
from serq.results.tables import member_namer

Better = Literal["less", "more", ""]
"""Which way a figure is better; empty where nothing says so."""

LATENCIES: Final = ("ttft", "tpot", "e2e")
COMPARED_QUANTILES: Final = ("p50", "p90", "p99")


class Name(NamedTuple):
    """A figure of a run by the table it belongs to, its row and its column."""

    section: Literal["requests", "objective", "observation", "stage", "engine", "money"]
    row: str
    column: str


class Measure(NamedTuple):
    """One figure of one run; NaN where the run does not determine it."""

    value: float
    better: Better


def measures(report: Report, objectives: Sequence[Objective]) -> dict[Name, Measure]:
    """The figures of ``report`` that are compared, in the order in which they are shown.

    Latencies and throughput are those of all requests that were served in full since warm-up, of whichever
    stage. ``objectives`` are those of the program that was run.
    """
    return {
        **dict(request_measures(report)),
        **dict(_of_objectives(report)),
        **dict(_of_observations(report, objectives)),
        **dict(_of_stages(report)),
        **dict(_of_engines(report)),
        **dict(_of_money(report)),
    }


def _statistics(values: list[float]) -> Iterator[tuple[str, float]]:
    known = [value for value in values if not isnan(value)]
    yield "mean", mean(known) if known else nan
    for name in COMPARED_QUANTILES:
        yield name, quantile(known, QUANTILES[name])


def request_measures(report: Report) -> Iterator[tuple[Name, Measure]]:
    """Latencies and throughput of all requests served in full since warm-up, of whichever engine."""
    records, table = report.records, report.records.requests
    if not records.engines:
        return
    places = served_places(table, records.warmup)
    for metric in LATENCIES:
        for column, value in _statistics(REQUEST_METRICS[metric](table, places)):
            yield Name("requests", metric, column), Measure(value, "less")
    span = records.end - records.warmup
    for row, total in (
        ("requests", len(places)),
        ("input tokens", sum(table.prompt_tokens[place] for place in places)),
        ("output tokens", sum(table.generated[place] for place in places)),
    ):
        yield Name("requests", row, "per second"), Measure(total / span if span > 0 else nan, "more")


def _of_objectives(report: Report) -> Iterator[tuple[Name, Measure]]:
    for row in report.answers.objectives:
        if isnan(row.within):
            yield Name("objective", row.objective, "met"), Measure(_as_number(row.met), "more")
        else:
            yield Name("objective", row.objective, "share within"), Measure(row.within, "more")
    for good in report.answers.goodput:
        yield Name("objective", f"goodput {good.about}", "per second"), Measure(good.per_second, "more")
        yield Name("objective", f"goodput {good.about}", "share"), Measure(good.share, "more")


def _as_number(met: bool | None) -> float:
    return nan if met is None else float(met)


def _of_observations(report: Report, objectives: Sequence[Objective]) -> Iterator[tuple[Name, Measure]]:
    """An observation has a better side where an objective limits it."""
    sides: dict[str, Better] = {
        node.metric: "less" if node.comparison.startswith("<") else "more"
        for node in objectives
        if node.source == "observation"
    }
    for name, series in report.records.series.items():
        better = sides.get(name, "")
        for column, value in _statistics(list(series.values)):
            yield Name("observation", name, column), Measure(value, better)


def _of_stages(report: Report) -> Iterator[tuple[Name, Measure]]:
    rows = report.records.stages
    name = member_namer(rows)
    for row in rows:
        yield Name("stage", name(row), "throughput"), Measure(row.throughput, "more")
        yield Name("stage", name(row), "utilization"), Measure(row.utilization, "")


def _of_engines(report: Report) -> Iterator[tuple[Name, Measure]]:
    rows = report.records.engines
    name = member_namer(rows)
    for row in rows:
        yield Name("engine", name(row), "preemptions"), Measure(float(row.preemptions), "less")
        yield Name("engine", name(row), "prefix_hit_rate"), Measure(row.prefix_hit_rate, "more")
        yield Name("engine", name(row), "mean_kv_usage"), Measure(row.mean_kv_usage, "")


def _of_money(report: Report) -> Iterator[tuple[Name, Measure]]:
    for row in report.money[:1]:
        yield Name("money", "of the run", ""), Measure(row.money, "less")
        yield Name("money", "per million", "output tokens"), Measure(row.per_million_output_tokens, "less")
        yield Name("money", "per million", "tokens"), Measure(row.per_million_tokens, "less")
