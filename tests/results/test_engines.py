"""Reports of runs with `vllm` stages: figures by hand, frames, text and JSON."""

from __future__ import annotations

import json
from math import isnan

import pytest

from serq.ir import nodes
from serq.results import Report
from serq.results.engines import Latency
from tests.results.example import example_records
from tests.runtime.serving.build import branch, pause, request, run, vllm

LATE = branch("serial == 1", pause(100))


@pytest.fixture(scope="module")
def report() -> Report:
    """Steps of 10: session 0 has three tokens from 0 to 30, session 1 the same from 100, 32 of 40 cached.

    Session 2 gives up its ninth token at 225. Warm-up ends at 90.
    """
    session = [
        LATE,
        branch("serial == 2", pause(200), request(5, 9, abort_after=25, label=2)),
        branch("serial < 2", request(40, 3, prefix=(1, 40), label="serial")),
    ]
    return Report(run(vllm(), session, arrive=nodes.Batch(3), horizon=290, warmup=90))


def test_figures_are_those_since_warm_up(report: Report) -> None:
    """One request ran to its end; 6 steps; blocks: 3 of 99 for 30 of 200 time units, and 1 for 30."""
    row = report.engines.iloc[0].to_dict()
    assert {name: row[name] for name in ("name", "member", "requests", "steps", "tokens", "preemptions")} == {
        **{"name": "engine", "member": 0, "requests": 1, "steps": 6, "preemptions": 0},
        "tokens": (8 + 1 + 1) + (5 + 1 + 1),
    }
    assert row["prefix_hit_rate"] == 32 / 45
    assert row["mean_kv_usage"] == pytest.approx((3 * 30 + 1 * 30) / (99 * 200), rel=1e-12)
    assert (row["ttft_p50"], row["tpot_mean"], row["e2e_p99"]) == (10, 10, 30)


def test_requests_are_rows(report: Report) -> None:
    frame = report.requests
    assert list(frame["finish_reason"]) == ["length", "length", "abort"]
    assert list(frame["class"]) == [0, 1, 2]
    assert list(frame["sent"]) == [0, 100, 200]
    assert list(frame["finish"]) == [30, 130, 230]
    assert list(frame["last_token"]) == [30, 130, 220]
    assert list(frame["generated"]) == [3, 3, 2]
    assert list(frame["cached_tokens"]) == [0, 32, 0]
    assert list(zip(frame["first_step"], frame["last_step"], strict=True)) == [(0, 2), (3, 5), (6, 7)]


def test_steps_are_rows(report: Report) -> None:
    frame = report.steps
    assert list(frame["end"]) == [10, 20, 30, 110, 120, 130, 210, 220, 230]
    assert list(frame["prefill_tokens"]) == [40, 0, 0, 8, 0, 0, 5, 0, 0]
    assert set(frame["stage"]) == {"engine"}


def test_every_option_is_printed_as_it_was_resolved(report: Report) -> None:
    text = repr(report)
    options = dict(report.records.engines[0].options)
    assert options["max_num_batched_tokens"] == 2048
    for name in options:
        assert any(line.startswith(f"{name} ") for line in text.splitlines()), name
    assert json.loads(report.to_json())["engines"][0]["options"]["groups"] == "full(block_size 16)"


def test_json_has_the_latencies(report: Report) -> None:
    engine = json.loads(report.to_json())["engines"][0]
    for metric in ("ttft", "tpot"):
        assert {name: engine[metric][name] for name in ("mean", "p50", "p90", "p99")} == dict.fromkeys(
            ("mean", "p50", "p90", "p99"), 10
        )
        assert engine[metric]["ci"] is engine[metric]["p50_low"] is None
    assert engine["e2e"]["mean"] == 30


def test_a_base_program_has_no_engines() -> None:
    base = Report(example_records())
    assert "engines" not in base.to_dict()
    assert base.requests.empty
    assert base.steps.empty
    assert base.engines.empty


def test_quantiles_are_samples() -> None:
    assert Latency.of([4.0, float("nan"), 1.0, 2.0, 3.0]) == Latency(2.5, 2.0, 4.0, p90=4.0)
    assert all(isnan(value) for value in (Latency.of([]).mean, Latency.of([]).p99))
