"""Devices, device-hours and money per million tokens, worked out by hand."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path

import pytest
from click.testing import CliRunner

import serq
from serq.cli import main
from serq.errors import UsageError
from serq.results.money import devices
from serq.results.opening import opening
from serq.studies.backend import Backend
from serq.studies.capacity import CapacityPlan, capacity
from serq.studies.capacity_text import capacity_text
from serq.studies.compare import ComparePlan, compare
from tests.shared import ROOT

# Both requests end at 3: 32 prompt and 6 output tokens, in half an hour of four devices a member.
PROGRAM = """
let step = 1;
stage e[2] : vllm { max_num_seqs 1; num_gpu_blocks 11; max_model_len 64; async_scheduling false;
                    cost step; layout vllm_ascend { tensor_parallel_size 4; } }
workload { arrive batch(2); }
session { request r on e[serial] (16, 3); }
slo e2e p99 < 9;
run { horizon 1800; }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.sq"
    path.write_text(PROGRAM)
    return path


def test_money_of_a_run(file: Path) -> None:
    """2 members of 4 devices for half an hour are 4 device-hours; 10 of money; 6 and 38 tokens."""
    report = serq.run(file, price_per_hour=2.5)
    (row,) = report.money
    assert (row.about, row.devices, row.device_hours, row.money) == ("all", 8, 4.0, 10.0)
    assert row.per_million_output_tokens == pytest.approx(10 / 6 * 1e6)
    assert row.per_million_tokens == pytest.approx(10 / 38 * 1e6)
    assert "10 for 4 device-hours of 8 devices; 1.667e+06 per million output tokens" in [
        line.says for line in opening(report) if line.about == "money"
    ]
    assert "cost of  devices  device-hours  money  per million output tokens" in repr(report)
    assert report.to_dict()["money"][0]["money"] == 10


def test_from_the_warm_up_on(file: Path) -> None:
    """A quarter of an hour is left, and both requests ended before it."""
    (row,) = serq.run(file, price_per_hour=2.5, warmup=900).money
    assert (row.device_hours, row.money) == (2.0, 5.0)
    assert isnan(row.per_million_output_tokens) and isnan(row.per_million_tokens)


def test_without_a_price_nothing_is_said(file: Path) -> None:
    report = serq.run(file)
    assert report.money == [] and "money" not in report.to_dict() and "cost of" not in repr(report)


def test_a_folder_keeps_the_price(file: Path, tmp_path: Path) -> None:
    program = serq.compile(file, price_per_hour=2.5)
    serq.run(program, out=serq.open_run_folder(tmp_path / "run", program, "csv"))
    again = serq.read_run(tmp_path / "run")
    assert again.money == serq.run(program).money
    page = tmp_path / "page.html"
    command = ["report", str(tmp_path / "run"), "-o", str(page), "--price-per-hour", "5"]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert "20 for 4 device-hours of 8 devices" in page.read_text()


def test_prefillers_cost_and_their_requests_are_counted_once() -> None:
    """Every request is sent to a prefiller (kv_producer) and then to a decoder."""
    report = serq.run(ROOT / "examples" / "vendors" / "disaggregated.sq", price_per_hour=1)
    rows = {row.about: row for row in report.money}
    requests = report.requests
    served = requests[(requests["stage"] == "decoder") & (requests["finish"] >= report.records.warmup)]
    served = served[served["finish_reason"].isin(["stop", "length", "repetition"])]
    assert rows["all"].output_tokens == served["generated"].sum()
    assert rows["all"].tokens == served["generated"].sum() + served["prompt_tokens"].sum()
    assert rows["all"].money == pytest.approx(sum(row.money for name, row in rows.items() if name != "all"))
    assert isnan(rows["prefiller"].per_million_tokens)


EXECUTOR = 'executor x : roofline {{ model "Qwen3-14B"; device "H100-SXM"; link_bandwidth 1e11; {} }}\n'
OTHER = "workload { arrive batch(1); } session { end; } run { horizon 9; }"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("stage e : vllm { num_gpu_blocks 9; max_model_len 64; cost 1; }", {"e": 1}),
        ("stage e[3] : vllm { num_gpu_blocks 9; max_model_len 64; cost 1; data_parallel_size 3; }", {"e": 3}),
        ("stage e : step { cost 1; }\nstage d : fifo;\nstage t[4] : delay;", {"e": 1}),
        (
            EXECUTOR.format("tensor_parallel_size 4;") + "stage e[2] : step { cost via x; }",
            {"e": 8},
        ),
        (
            EXECUTOR.format("tensor_parallel_size 2;")
            + "stage e : vllm { num_gpu_blocks 9; max_model_len 64; cost via x; }\n"
            "stage f : vllm { num_gpu_blocks 9; max_model_len 64; cost 1; "
            "layout vllm_ascend { tensor_parallel_size 8; } }",
            {"e": 2, "f": 8},
        ),
        (
            "stage e : vllm { num_gpu_blocks 9; max_model_len 64; cost 1; pipeline_parallel_size 3; "
            "scheduler profiling_chunk; layout vllm_ascend { tensor_parallel_size 2; } }",
            {"e": 6},
        ),
    ],
)
def test_devices(text: str, count: dict[str, int]) -> None:
    assert devices(serq.compile(source=text + "\n" + OTHER).ir) == count


def test_what_cannot_be_meant(file: Path, tmp_path: Path) -> None:
    for price in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="it must be positive and finite"):
            serq.compile(file, price_per_hour=price)
    with pytest.raises(UsageError, match="price_per_hour='3': it must be a number"):
        serq.compile(file, price_per_hour="3")  # type: ignore[arg-type]
    queue = tmp_path / "q.sq"
    text = "stage d : fifo; workload { arrive batch(1); } session { run d (1); } run { horizon 4; }"
    queue.write_text(text)
    result = CliRunner().invoke(main, ["run", str(queue), "--price-per-hour", "3"])
    assert result.exit_code == 2 and "the program has no engine" in result.stderr


def test_replications_and_sweeps(file: Path) -> None:
    data = CliRunner().invoke(
        main, ["run", str(file), "--reps", "2", "--jobs", "1", "--price-per-hour", "2.5", "--json"]
    )
    assert json.loads(data.stdout)["figures"]["money.all.money"]["values"] == [10]
    study = serq.sweep(file, {"step": [1, 2]}, price_per_hour=2.5)
    assert list(study.frame()["money.all.device_hours"]) == [4.0, 4.0]


def test_comparison_with_other_devices(file: Path) -> None:
    """The same work costs twice as much where a device costs twice as much."""
    plan = ComparePlan(
        file, sets_b={"step": "2"}, replications=2, settings={"price_per_hour": 1.0}, price_per_hour_b=2.0
    )
    rows = {one.name[1:]: one for one in compare(plan, backend=Backend(1)).differences}
    assert rows["of the run", ""].means == (4.0, 8.0)
    assert rows["per million", "output tokens"].verdict.value == "worse"
    with pytest.raises(UsageError, match="a price for B alone"):
        compare(ComparePlan(file, sets_b={"step": "2"}, price_per_hour_b=2.0))


def test_capacity_says_what_tokens_cost_there(file: Path) -> None:
    """E2E is 3 steps: below 9 s up to almost 3; both requests still end, so the cost is that of the run."""
    plan = CapacityPlan(file, "step", 1.0, replications=1, settings={"price_per_hour": 2.5})
    result = capacity(plan, backend=Backend(1))
    assert result.per_million_output_tokens.mean == pytest.approx(10 / 6 * 1e6)
    assert "there a million output tokens cost 1.66667e+06" in capacity_text(result)
