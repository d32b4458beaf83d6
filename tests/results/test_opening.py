"""The first lines of a report; every figure in them is worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import serq
from serq.errors import RunError
from serq.results.opening import opening

# One slot, two requests sent at 0, steps of 1: TTFT 1 and 4, the last tokens at 3 and 6, TPOT 1.
ENGINE = """
stage e : vllm { max_num_seqs 1; num_gpu_blocks 11; max_model_len 64; async_scheduling false; cost 1; }
workload { arrive batch(2); }
session { request r on e (16, 3); observe t = ttft(r); }
slo ttft p99 < 5;
slo ttft p50 < 0.5;
run { horizon 8; }
expect count(t) == 2;
expect mean(t) < 2;
"""

# The same on two members: both end at 3. A second stage serves nobody.
FAMILY = """
stage e[2] : vllm { max_num_seqs 1; num_gpu_blocks 11; max_model_len 64; async_scheduling false; cost 1; }
stage idle : vllm { max_num_seqs 1; num_gpu_blocks 11; max_model_len 64; async_scheduling false; cost 2; }
workload { arrive batch(2); }
session {
  request r on e[serial] (16, 3 + serial);
  branch (serial > 1) { request s on idle (16, 1); }
}
run { horizon 8; }
"""


def lines(report: serq.Report) -> dict[str, str]:
    return {line.about: line.says for line in opening(report)}


def test_an_engine() -> None:
    """One of two requests is beyond 0.5 at the median; goodput needs both limits, and none is within 0.5."""
    report = serq.run(serq.compile(source=ENGINE))
    assert lines(report) == {
        "answer": "1 of 2 objectives met, missed `ttft p50 < 0.5` (measured 1, 0.0 % within); "
        "goodput 0 requests/s, 0.0 % of all; 1 of 2 expectations hold, not `mean(t) < 2`",
        "served": "2 requests, 0.25/s, 0.75 output tokens/s; TTFT p50 1, p99 4 s; TPOT p50 1, p99 1 s",
        "matched": "vLLM 0.27.1",
        "costs": "`e`: an expression of the program",
        "warnings": "none",
    }
    text, data = repr(report), report.to_dict()
    assert text.startswith("answer    1 of 2 objectives met") and "\nmatched   vLLM 0.27.1\n" in text
    assert "<strong>costs</strong> `e`: an expression of the program" in report._repr_html_()
    assert data["models"] == {"vllm": "0.27.1"}
    assert data["costs"] == [
        {"stage": "e", "basis": "an expression of the program", "measurements": [], "evidence": {}}
    ]


def test_members_are_one_stage_and_a_folder_says_the_same(tmp_path: Path) -> None:
    """TTFT is 1 at both; 3 and 4 tokens in 8 s."""
    program = serq.compile(source=FAMILY)
    report = serq.run(program)
    assert lines(report)["served"] == (
        "`e` 2 requests, 0.25/s, 0.875 output tokens/s, TTFT p50 1, p99 1 s, TPOT p50 1, p99 1 s; "
        "`idle` no request"
    )
    assert "answer" not in lines(report)
    serq.run(program, out=serq.open_run_folder(tmp_path / "run", program, "csv"))
    assert opening(serq.read_run(tmp_path / "run")) == opening(report)


def test_many_stages_and_observations_are_cut() -> None:
    engine = "vllm { num_gpu_blocks 9; max_model_len 64; cost 1; }"
    stages = "".join(f"stage s{n} : {engine}\n" for n in range(5))
    text = stages + "workload { arrive batch(1); } session { request r on s0 (8, 1); } run { horizon 4; }"
    assert lines(serq.run(serq.compile(source=text)))["served"].endswith("`s2` no request; 2 more stages")
    observed = " ".join(f"observe o{n} = {n};" for n in range(4))
    text = f"workload {{ arrive batch(2); }} session {{ {observed} }} run {{ horizon 4; }}"
    assert lines(serq.run(serq.compile(source=text))) == {
        "served": "2 sessions, 0.5/s; `o0` mean 0, p50 0, p99 0; `o1` mean 1, p50 1, p99 1; "
        "`o2` mean 2, p50 2, p99 2; 1 more observations",
        "warnings": "none",
    }


def test_a_run_that_stops() -> None:
    """The second session reads a guard of 2 at 3 s; expectations are not judged then."""
    text = ENGINE.replace("observe t", "branch (serial * 2) { end; } observe t")
    with pytest.raises(RunError) as stop:
        serq.run(serq.compile(source=text))
    assert stop.value.report is not None
    found = lines(stop.value.report)
    assert found["answer"].startswith("stopped at 6 s of 8 s: the condition of `branch` is 2: it must be")
    assert "expectations" not in found["answer"]
    assert found["served"].startswith("2 requests, 0.3333/s")


def test_warnings_are_counted_and_the_first_is_named() -> None:
    """The thrashing engine of `test_thrash`, and a trace that nothing reads."""
    text = """
    stage engine : vllm { num_gpu_blocks 10; max_model_len 999; enable_prefix_caching false; cost 0.01; }
    workload { arrive batch(2); }
    session { branch (serial == 0) { request r on engine (64, 20); } else { request s on engine (80, 2); } }
    run { horizon 10; }
    """
    program = serq.compile(source=text)
    told = lines(serq.run(program))["warnings"]
    assert told.startswith("1, stage `engine`: `engine` thrashes: 1 preemption lost 80 computed tokens")
    both = serq.compile(source=text, trace=Path("none.csv"))
    report = both.report(serq.run(program).records)
    assert lines(report)["warnings"] == (
        "2, the first: --trace: the program reads nothing of none.csv: it has neither `arrive trace` nor "
        "`turn;` [W608]"
    )
