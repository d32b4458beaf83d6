"""Small programs as tests write them."""

from __future__ import annotations

import serq
from serq.runtime.records import Records
from serq.runtime.simulation import simulate


def records(source: str) -> Records:
    """What a run of the program recorded."""
    program = serq.compile(source=source)
    return simulate(program.ir, source_map=program.source_map)


def samples(source: str, series: str = "x") -> list[float]:
    """The samples of one observation, in recording order."""
    return records(source).series[series].values


def batch(session: str, declarations: str = "", *, count: int = 1, horizon: float = 100) -> str:
    """A program of ``count`` sessions that all arrive at 0, with a `delay` stage called `d`."""
    return (
        f"stage d : delay; {declarations} workload {{ arrive batch({count}); }} "
        f"session {{ {session} }} run {{ horizon {horizon}; }}"
    )
