"""Records as pandas DataFrames. pandas is imported when the first frame is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from serq.results.engines import METRICS, EngineFigures, Latency
from serq.results.groups import RequestGroup
from serq.results.objectives import GoodputRow, ObjectiveRow
from serq.results.statistics import Summary
from serq.runtime.records import ConnectorRow, GaugeRow, PoolRow, Records, Series, StageRow
from serq.runtime.request_records import (
    FINISH_REASONS,
    PREEMPTION_COLUMNS,
    QUEUE_COLUMNS,
    STEP_COLUMNS,
    EngineRow,
)

if TYPE_CHECKING:
    from pandas import DataFrame


def observation_frame(series: Series) -> DataFrame:
    """The samples in recording order: ``time``, ``session``, ``turn``, ``value``.

    ``turn`` is the attribute `turn_no`: whole numbers, unless the program assigned something else.
    """
    import pandas

    frame = pandas.DataFrame(
        {"time": series.times, "session": series.sessions, "turn": series.turns, "value": series.values},
    ).astype({"time": "float64", "session": "int64", "turn": "float64", "value": "float64"})
    whole = all(turn.is_integer() for turn in map(float, series.turns))
    return frame.astype({"turn": "int64"}) if whole else frame


def summary_frame(summaries: Mapping[str, Summary]) -> DataFrame:
    """One row an observation, indexed by name."""
    return _frame(Summary, list(summaries.values())).set_axis(list(summaries), axis="index")


def stage_frame(rows: Sequence[StageRow]) -> DataFrame:
    """One row a stage member, in declaration order."""
    return _frame(StageRow, rows)


def pool_frame(rows: Sequence[PoolRow]) -> DataFrame:
    """One row a pool member, in declaration order."""
    return _frame(PoolRow, rows)


def connector_frame(rows: Sequence[ConnectorRow]) -> DataFrame:
    """One row a connector, in declaration order."""
    return _frame(ConnectorRow, rows)


def gauge_frame(rows: Sequence[GaugeRow]) -> DataFrame:
    """One row a gauge, in declaration order."""
    return _frame(GaugeRow, rows)


def objective_frame(rows: Sequence[ObjectiveRow]) -> DataFrame:
    """One row an `slo`, in the order of the program."""
    return _frame(ObjectiveRow, rows)


def goodput_frame(rows: Sequence[GoodputRow]) -> DataFrame:
    """Goodput of all requests, then of each class."""
    return _frame(GoodputRow, rows)


def engine_frame(engines: Sequence[EngineFigures]) -> DataFrame:
    """One row a member of a `vllm` stage, in declaration order; latencies as ``ttft_mean``, …"""
    import pandas

    rows = [
        {
            **{name: getattr(engine.row, name) for name in ("name", "member")},
            "requests": engine.requests,
            **{name: getattr(engine.row, name) for name in _ENGINE_FIGURES},
            **_memory(engine.row),
            "walked_steps": dict(engine.row.walked_steps),
            **{name: getattr(engine, name) for name in _THROUGHPUT},
            **{
                f"{metric}_{field.name}": getattr(getattr(engine, metric), field.name)
                for metric in METRICS
                for field in fields(Latency)
            },
        }
        for engine in engines
    ]
    return pandas.DataFrame(rows)


def group_frame(groups: Sequence[RequestGroup]) -> DataFrame:
    """One row a group of requests, indexed by its name; latencies as ``ttft_mean``, …"""
    import pandas

    rows = [
        {
            "requests": group.requests,
            **{
                f"{metric}_{field.name}": getattr(getattr(group, metric), field.name)
                for metric in METRICS
                for field in fields(Latency)
            },
        }
        for group in groups
    ]
    return pandas.DataFrame(rows, index=[group.name for group in groups])


def _memory(row: EngineRow) -> dict[str, float]:
    """What the blocks of a model with recurrent states hold; nothing for other models."""
    if row.memory is None:
        return {}
    return {name: value for name, value in asdict(row.memory).items() if name != "usable"}


_THROUGHPUT = ("request_throughput", "input_throughput", "output_throughput")
_ENGINE_FIGURES = ("steps", "tokens", "preemptions", "prefix_hit_rate", "mean_kv_usage", "dummy_steps",
                   "planned_steps")  # fmt: skip


def request_frame(records: Records) -> DataFrame:
    """The table of requests, indexed by number: places in other tables become names and reasons."""
    import pandas

    table, engines = records.requests, records.engines
    columns = {
        "session": table.session,
        "turn": table.turn,
        "handle": table.handle,
        "stage": [engines[place].name for place in table.engine],
        "member": [engines[place].member for place in table.engine],
        "class": table.label,
        "sent": table.sent,
        "queued": table.queued,
        "scheduled": table.scheduled,
        "first_token": table.first_token,
        "last_token": table.last_token,
        "finish": table.finish,
        "prompt_tokens": table.prompt_tokens,
        "cached_tokens": table.cached_tokens,
        "fetched_tokens": table.fetched_tokens,
        "generated": table.generated,
        "deliveries": table.deliveries,
        "preemptions": table.preemptions,
        "finish_reason": [FINISH_REASONS[place] for place in table.finish_reason],
        "first_step": table.first_step,
        "last_step": table.last_step,
    }
    return pandas.DataFrame(columns).rename_axis("request")


def step_frame(engines: Sequence[EngineRow]) -> DataFrame:
    """The steps of all engines: ``stage``, ``member`` and the columns of their tables.

    Where the rows of steps were kept, the columns of :class:`LaidStep` follow.
    """
    import pandas

    if any(engine.rows is not None for engine in engines):
        return _laid_out_frame(engines)
    names = STEP_COLUMNS
    parts = [
        pandas.DataFrame({name: getattr(engine.table, name) for name in names}).assign(
            stage=engine.name, member=engine.member
        )
        for engine in engines
    ]
    columns = ["stage", "member", *names]
    return pandas.concat(parts)[columns] if parts else pandas.DataFrame(columns=columns)


def queue_frame(engines: Sequence[EngineRow]) -> DataFrame:
    """The stays in waiting queues of all engines: ``stage``, ``member``, the columns of their tables."""
    return _engine_frames(engines, "queue", QUEUE_COLUMNS)


def preemption_frame(engines: Sequence[EngineRow]) -> DataFrame:
    """The preemptions of all engines: ``stage``, ``member``, the columns of their tables."""
    return _engine_frames(engines, "victims", PREEMPTION_COLUMNS)


def _engine_frames(engines: Sequence[EngineRow], table: str, names: Sequence[str]) -> DataFrame:
    import pandas

    columns = ["stage", "member", *names]
    parts = [
        pandas.DataFrame({name: getattr(getattr(engine, table), name) for name in names}).assign(
            stage=engine.name, member=engine.member
        )
        for engine in engines
        if len(getattr(engine, table))
    ]
    return pandas.concat(parts)[columns] if parts else pandas.DataFrame(columns=columns)


def _laid_out_frame(engines: Sequence[EngineRow]) -> DataFrame:
    import pandas

    from serq.results.step_layouts import LaidStep, lay_out  # device layouts: only where rows are kept

    names = STEP_COLUMNS
    parts = []
    for engine, laid in zip(engines, lay_out(engines), strict=True):
        columns: dict[str, Any] = {name: getattr(engine.table, name) for name in names}
        columns |= {name: [getattr(step, name) for step in laid] for name in LaidStep._fields}
        parts.append(pandas.DataFrame(columns).assign(stage=engine.name, member=engine.member))
    return pandas.concat(parts)[["stage", "member", *names, *LaidStep._fields]]


def _frame(kind: type[Any], rows: Sequence[Any]) -> DataFrame:
    import pandas

    return pandas.DataFrame([asdict(row) for row in rows], columns=[field.name for field in fields(kind)])
