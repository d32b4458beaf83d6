"""examples/azure: recorded requests arrive at their recorded times and are served."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

import serq
from serq.runtime.trace import read_trace
from tests.shared import ROOT, shared

FOLDER = ROOT / "examples" / "azure"


def test_the_sample_is_served_completely() -> None:
    trace = read_trace(FOLDER / "sample.csv")
    report = serq.run(FOLDER / "engine.sq")
    records = report.records
    assert records.arrivals == records.ended == trace.sessions == len(records.series["ttft"].values)
    assert trace.times is not None
    ttft = records.series["ttft"]
    for time, session, value in zip(ttft.times, ttft.sessions, ttft.values, strict=True):
        assert time - value == pytest.approx(trace.times[session], abs=1e-6)  # sent when it was recorded
        assert value > 0.010 + 30e-6 * min(trace.new[session], 2048) - 1e-9  # its prefill, at the least
    several = sum(out > 1 for out in trace.out)
    assert len(records.series["tpot"].values) == several
    assert min(records.series["tpot"].values) > 0.010


def test_arrivals_faster_by_a_factor() -> None:
    slow = serq.run(FOLDER / "engine.sq").records
    fast = serq.run(serq.compile(FOLDER / "engine.sq", sets={"speed": 1.25})).records
    assert fast.ended == slow.ended
    assert max(fast.series["e2e"].times) < max(slow.series["e2e"].times)
    assert sum(fast.series["e2e"].values) > sum(slow.series["e2e"].values)


def test_prompts_beyond_the_model_and_empty_answers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "session,turn,new,out,think,forced,time\n0,0,70000,5,0,0,0\n1,0,10,0,0,0,1\n"
    )
    records = serq.run(serq.compile(FOLDER / "engine.sq", trace=tmp_path / "t.csv")).records
    assert records.series["rejected"].values == [70000]
    assert (
        records.series["ttft"].values == records.series["e2e"].values == [pytest.approx(0.010 + 10 * 30e-6)]
    )


def test_the_azure_conversation_trace() -> None:
    path = shared("data", "traces", "azure_2023_conv.csv")
    begin = process_time()
    records = serq.run(serq.compile(FOLDER / "engine.sq", trace=path)).records
    assert process_time() - begin < 15
    assert records.arrivals == records.ended == 19_366
    assert len(records.series["ttft"].values) == 19_366
