"""Records as pandas DataFrames. pandas is imported when the first frame is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from serq.results.statistics import Summary
from serq.runtime.records import PoolRow, Series, StageRow

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


def _frame(kind: type[Any], rows: Sequence[Any]) -> DataFrame:
    import pandas

    return pandas.DataFrame([asdict(row) for row in rows], columns=[field.name for field in fields(kind)])
