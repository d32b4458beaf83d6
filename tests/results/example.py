"""Records written by hand, for the tests of everything that shows them."""

from __future__ import annotations

from math import nan

from serq.runtime.records import PoolRow, Records, Series, StageRow
from serq.source import Diagnostic


def example_records() -> Records:
    """Two observations, a family of two stages, a pool with one stuck session, a warning."""
    return Records(
        horizon=40.0,
        end=40.0,
        warmup=2.5,
        seed=7,
        events=9,
        arrivals=2,
        ended=1,
        turns=3,
        mean_live=0.35,
        series={
            "ttft": Series("ttft", [5.0, 9.0, 1.5], [5.0, 9.0, 10.25], [0, 1, 1], [1.0, 1.0, 2.0]),
            "never": Series("never"),
        },
        stages=[
            StageRow("gap", 0, 0.0, 0.0, 0, 0.0, nan, nan, 0),
            StageRow("gpu", 0, 0.25, 0.225, 4, 0.1, 0.0, 2.5, 9),
            StageRow("gpu", 1, 0.125, 0.1, 1, 0.025, 0.0, 4.0, 4),
        ],
        pools=[PoolRow("kv", 0, 1.8, 10.1, 0.0, 0.25, nan, 6, 0, 4.0, 4, 0, 0, 1)],
        warnings=[Diagnostic("W999", "a thing <to> look at", owner="stage `gpu`", severity="warning")],
    )
