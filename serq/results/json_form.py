"""The report as JSON, in the shape of the base language's report (R-B-118), and the engines if any."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from serq.results.answers import Answers
from serq.results.engines import METRICS, EngineFigures, Latency
from serq.results.groups import RequestGroup
from serq.results.money import MoneyRow
from serq.results.objectives import GoodputRow, ObjectiveRow
from serq.results.statistics import Summary
from serq.runtime.pricing import PriceRow
from serq.runtime.records import ConnectorRow, GaugeRow, PoolRow, Records, StageRow
from serq.runtime.request_records import EngineRow

if TYPE_CHECKING:
    from serq.runtime.serving.hybrid_memory import MemoryRow

    Row: TypeAlias = (
        Records
        | Summary
        | StageRow
        | PoolRow
        | EngineRow
        | EngineFigures
        | Latency
        | GaugeRow
        | ConnectorRow
        | ObjectiveRow
        | GoodputRow
        | MemoryRow
        | MoneyRow
    )

Plain = int | float | str | None

RUN_FIELDS: Final = (
    *("horizon", "end", "warmup", "seed", "events", "arrivals", "ended", "turns", "mean_live"),
)
SUMMARY_FIELDS: Final = ("count", "mean", "ci", "cv2", "p99")
STAGE_FIELDS: Final = (
    *("name", "mean_number", "utilization", "completed", "throughput"),
    *("mean_wait", "mean_service", "iterations"),
)
POOL_FIELDS: Final = (
    *("name", "mean_used", "mean_cached", "mean_queue", "mean_holders", "mean_wait", "admissions"),
    *("evicted_entries", "evicted_units", "preemptions", "spills", "rejected", "stuck"),
)

CONNECTOR_FIELDS: Final = (*("name", "fetches", "failed", "mean_tokens", "mean_time", "offloads", "refused"),)
GAUGE_FIELDS: Final = ("mean", "smallest", "largest")
ENGINE_FIELDS: Final = (
    *("name", "member", "steps", "tokens", "preemptions", "prefix_hit_rate", "mean_kv_usage"),
)
MEMORY_FIELDS: Final = (
    *("usable", "mean_kv_blocks", "most_kv_blocks", "mean_state_blocks", "most_state_blocks"),
)
LATENCY_FIELDS: Final = tuple(entry.name for entry in fields(Latency))
THROUGHPUT_FIELDS: Final = ("request_throughput", "input_throughput", "output_throughput")

OBJECTIVE_FIELDS: Final = (
    *("objective", "requests", "undecided", "measured", "within", "low", "high", "met"),
)
GOODPUT_FIELDS: Final = ("about", "good", "per_second", "share", "low", "high")

MONEY_FIELDS: Final = (
    *("about", "devices", "device_hours", "money", "output_tokens", "tokens"),
    *("per_million_output_tokens", "per_million_tokens"),
)

_LARGEST_PLAIN_INTEGER: Final = 10**21


def plain(value: Plain) -> Plain:
    """A figure as JSON can say it: null for what is not finite, no fraction for a whole number."""
    if not isinstance(value, float):
        return value
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < _LARGEST_PLAIN_INTEGER else value


def as_dict(
    records: Records,
    engines: Sequence[EngineFigures],
    summaries: Mapping[str, Summary],
    answers: Answers,
    classes: Sequence[RequestGroup] = (),
) -> dict[str, Any]:
    """The report as plain data; a run that was stopped says so under ``stopped``.

    ``objectives``, ``goodput`` and ``expectations`` are there where the program has any.
    """
    out: dict[str, Any] = _fields(records, RUN_FIELDS)
    out["observes"] = {name: _fields(summary, SUMMARY_FIELDS) for name, summary in summaries.items()}
    out["stages"] = [_fields(row, STAGE_FIELDS) for row in records.stages]
    out["pools"] = [_fields(row, POOL_FIELDS) for row in records.pools]
    if records.gauges:
        out["gauges"] = {gauge.name: _fields(gauge, GAUGE_FIELDS) for gauge in records.gauges}
    if records.connectors:
        out["connectors"] = [_fields(row, CONNECTOR_FIELDS) for row in records.connectors]
    if engines:
        out["engines"] = [_engine(figures) for figures in engines]
    if classes:
        out["classes"] = groups_data(classes)
    if records.prices:
        out["prices"] = [_price(row) for row in records.prices]
    if answers.objectives:
        out["objectives"] = [_fields(row, OBJECTIVE_FIELDS) for row in answers.objectives]
        out["goodput"] = [_fields(row, GOODPUT_FIELDS) for row in answers.goodput]
    if answers.expectations:
        out["expectations"] = [outcome.to_json() for outcome in answers.expectations]
    if records.stopped is not None:
        out["stopped"] = records.stopped
    return out


def _engine(figures: EngineFigures) -> dict[str, Any]:
    row = figures.row
    return {
        **_fields(row, ENGINE_FIELDS),
        **({"dummy_steps": row.dummy_steps} if row.dummy_steps else {}),
        **({} if row.memory is None else {"memory": _fields(row.memory, MEMORY_FIELDS)}),
        "requests": figures.requests,
        **_fields(figures, THROUGHPUT_FIELDS),
        **_latencies(figures),
        "options": {name: plain(value) for name, value in row.options},
    }


def _latencies(figures: EngineFigures | RequestGroup) -> dict[str, Any]:
    return {metric: _fields(getattr(figures, metric), LATENCY_FIELDS) for metric in METRICS}


def groups_data(groups: Sequence[RequestGroup]) -> list[dict[str, Any]]:
    """Groups of requests as plain data."""
    return [{"name": group.name, "requests": group.requests, **_latencies(group)} for group in groups]


def money_data(rows: Sequence[MoneyRow]) -> list[dict[str, Any]]:
    """What a run costs as plain data."""
    return [_fields(row, MONEY_FIELDS) for row in rows]


def _price(row: PriceRow) -> dict[str, Any]:
    return {
        "stage": row.stage,
        "executor": row.executor,
        "kind": row.kind,
        "steps": row.ledger.steps,
        "seconds": plain(row.ledger.seconds),
        "operators": {
            operator: {evidence.value: plain(value) for evidence, value in seconds.items()}
            for operator, seconds in row.ledger.operators.items()
        },
        "settings": [setting._asdict() for setting in row.settings],
    }


def as_json(plain_data: Mapping[str, Any]) -> str:
    """A report that is plain data as one line of JSON."""
    return json.dumps(plain_data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _fields(row: Row, names: tuple[str, ...]) -> dict[str, Plain]:
    return {name: plain(getattr(row, name)) for name in names}
