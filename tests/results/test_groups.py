"""Latencies by class, handle, stage and turn; throughput; both forms of a run say the same."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest

import serq
from serq.errors import UsageError

# One slot, a step a second: the long request (class 1) of session 1 comes first, then two short ones wait.
PROGRAM = """
stage e : vllm { max_num_seqs 1; max_num_batched_tokens 32; max_model_len 64; num_gpu_blocks 11;
                 async_scheduling false; enable_prefix_caching false; cost 1; }
workload { arrive batch(3); }
session {
  branch (serial == 0) { request big on e (16, 4) class (1); }
  branch (serial == 1) { request small on e (16, 2) class (0); }
  branch (serial == 2) { request free on e (16, 1); }
}
run { horizon 20; }
"""


@pytest.fixture(scope="module")
def report() -> serq.Report:
    return serq.run(serq.compile(source=PROGRAM))


def test_classes(report: serq.Report) -> None:
    """big: 1 to 4; small: 5 to 6; free: 7."""
    zero, one, none = report.classes
    assert [group.name for group in report.classes] == ["class 0", "class 1", "no class"]
    assert (zero.requests, zero.ttft.mean, zero.e2e.p99, zero.tpot.p50) == (1, 5, 6, 1)
    assert (one.ttft.mean, one.e2e.mean, one.normalized_latency.mean) == (1, 4, 1)
    assert (zero.normalized_latency.mean, none.e2e.mean) == (3, 7) and isnan(none.tpot.mean)
    assert "class 0 ttft" in repr(report) and "class 1 e2e" in report._repr_html_()
    data = report.to_dict()["classes"][0]
    assert (data["name"], data["requests"], data["ttft"]["mean"], data["ttft"]["p50_low"]) == (
        "class 0", 1, 5, None,
    )  # fmt: skip


def test_other_groups(report: serq.Report) -> None:
    assert [group.name for group in report.groups("handle")] == ["big", "free", "small"]
    assert list(report.by("stage").index) == ["e"] and report.by("stage").loc["e", "e2e_mean"] == 17 / 3
    assert [group.name for group in report.groups("turn")] == ["turn 0"]
    assert report.list_groups("handle").startswith("requests of ")
    with pytest.raises(UsageError, match="there are class, handle, stage, turn"):
        report.groups("member")  # type: ignore[arg-type]


def test_no_classes_no_table() -> None:
    plain = serq.run(serq.compile(source=PROGRAM.replace(" class (1)", "").replace(" class (0)", "")))
    assert plain.classes == [] and "classes" not in plain.to_dict() and "requests of" not in repr(plain)


def test_throughput(report: serq.Report) -> None:
    """3 requests, 48 prompt and 7 output tokens in 20 s."""
    row = report.engines.iloc[0]
    assert (row["request_throughput"], row["input_throughput"], row["output_throughput"]) == (
        0.15, 2.4, 0.35,
    )  # fmt: skip
    assert report.to_dict()["engines"][0]["output_throughput"] == 0.35


@pytest.mark.parametrize("part_format", ["csv"])
def test_a_run_folder_says_the_same(tmp_path: Path, part_format: str, report: serq.Report) -> None:
    program = serq.compile(source=PROGRAM)
    writer = serq.open_run_folder(tmp_path / "run", program, part_format)
    serq.run(program, out=writer)
    again = serq.read_run(tmp_path / "run")
    assert repr(again) == repr(report) and again.to_dict() == report.to_dict()
    for by in ("class", "handle", "stage", "turn"):
        assert again.list_groups(by) == report.list_groups(by)
