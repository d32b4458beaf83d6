"""Frames read from part files as the tables that a run in memory has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from serq.runtime.request_records import (
    FINISH_REASONS,
    PREEMPTION_COLUMNS,
    QUEUE_COLUMNS,
    REQUEST_COLUMNS,
    STEP_COLUMNS,
    EngineRow,
    PreemptionTable,
    QueueTable,
    RequestTable,
    StepTable,
)

if TYPE_CHECKING:
    from pandas import DataFrame


def request_table(frame: DataFrame, engines: Sequence[EngineRow]) -> RequestTable:
    """The table of requests whose frame is ``frame``; engines and ends of requests become places again."""
    table = RequestTable()
    places = {(row.name, row.member): place for place, row in enumerate(engines)}
    columns: dict[str, Iterable[Any]] = {name: frame[name] for name in frame.columns}
    columns["engine"] = [places[key] for key in zip(frame["stage"], frame["member"], strict=True)]
    columns["label"] = frame["class"]
    columns["finish_reason"] = map(FINISH_REASONS.index, frame["finish_reason"])
    for name in REQUEST_COLUMNS:
        getattr(table, name).extend(columns[name])
    return table


def engine_rows(
    engines: Sequence[EngineRow], steps: DataFrame, queue: DataFrame, preemptions: DataFrame
) -> list[EngineRow]:
    """The engines with their steps, stays and preemptions out of the frames of all of them."""
    return [
        replace(
            engine,
            table=_filled(StepTable(), STEP_COLUMNS, _of(engine, steps)),
            queue=_filled(QueueTable(), QUEUE_COLUMNS, _of(engine, queue)),
            victims=_filled(PreemptionTable(), PREEMPTION_COLUMNS, _of(engine, preemptions)),
        )
        for engine in engines
    ]


def _of(engine: EngineRow, frame: DataFrame) -> DataFrame:
    return frame[(frame["stage"] == engine.name) & (frame["member"] == engine.member)]


def _filled(table: Any, columns: Sequence[str], frame: DataFrame) -> Any:
    for name in columns:
        getattr(table, name).extend(frame[name].tolist())
    return table
