"""examples/vendors: vllm-ascend's waiting lanes select in the order that its queue would."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import serq
from serq.runtime.ascend.short_request_first import ShortRequestFirstConfig, ShortRequestFirstRequestQueue
from serq.runtime.serving.waiting_orders import KeyedRequestQueue
from tests.runtime.ascend.ascend_requests import request
from tests.shared import ROOT, shared

ASCEND = ROOT / "examples" / "vendors" / "ascend.sq"
AGING = [0, 4, 1, 5, 2, 3]
NO_AGING = [0, 4, 2, 3, 1, 5]


def seed_program() -> str:
    """The program printed in the document that the example answers."""
    text = shared("seeds", "001_afb461e6b4632238.txt").read_text("utf-8")
    found = re.search(r"^// FCFS lanes .*?^run \{ horizon 1; \}$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(("sets", "order"), [({}, AGING), ({"max_wait": 0}, NO_AGING)])
def test_ascend_lanes(sets: dict[str, float], order: list[int]) -> None:
    report = serq.run(serq.compile(ASCEND, sets=sets))
    assert report.records.series["selected"].values == order
    assert report.records.ended == 6


@pytest.mark.parametrize(("sets", "order"), [({}, AGING), ({"max_wait": 0}, NO_AGING)])
def test_the_printed_program_runs_unchanged(sets: dict[str, float], order: list[int]) -> None:
    report = serq.run(serq.compile(source=seed_program(), sets=sets))
    assert report.records.series["selected"].values == order
    assert report.records.ended == 6 and not report.warnings


def test_ascend_times_follow_from_the_steps() -> None:
    """One step of 1 ms computes 128 tokens: 64 and 256 prompt tokens take 1 and 2, an output token 1."""
    series = serq.run(ASCEND).records.series
    milliseconds = dict(
        zip(series["selected"].values, (round(t * 1000) for t in series["ttft"].times), strict=True)
    )
    # 0 prefills until 1 and decodes three times until 4, then 4 (5), 1 (7), 5 (9), 2 (10), 3 (11)
    assert milliseconds == {0: 1, 4: 5, 1: 7, 5: 9, 2: 10, 3: 11}


def test_a_cold_start_takes_a_fraction_of_a_second() -> None:
    """It has no `vllm` stage: neither their engines nor what belongs to vllm-ascend is imported."""
    code = (
        "import sys, time\n"
        "from serq.cli import main\n"
        f"main(['run', {str(ASCEND)!r}], standalone_mode=False)\n"
        "assert not {'numpy', 'pandas', 'matplotlib', 'rich', 'torch', 'difflib'} & set(sys.modules)\n"
        "assert not {'serq.runtime.serving.engine', 'serq.runtime.ascend', 'serq.kernels.ascend'}"
        " & set(sys.modules)\n"
        "print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout.splitlines()[-1]) < 0.7


LANES = ASCEND.with_name("ascend_lanes.sq")


@pytest.mark.parametrize(
    ("sets", "built_in", "by_keys"),
    [
        ({}, AGING, AGING),
        ({"max_wait": 0}, NO_AGING, NO_AGING),
        ({"max_wait": 3.2, "last": 3.5}, [0, 4, 1, 2, 5, 3], AGING),
    ],
)
def test_lanes_of_an_engine_twice(sets: dict[str, float], built_in: list[int], by_keys: list[int]) -> None:
    """Request 5 comes at 3.5 and enters its lane at 4: at 7 it has waited 3 in the lane, 3.5 in all."""
    series = serq.run(serq.compile(LANES, sets=sets)).records.series
    assert series["order_built_in"].values == built_in
    assert series["order_by_keys"].values == by_keys


PINNED = """
def lane(length, time) = length <= 64 ? 2 : time >= 3 ? 1 : 3;
stage engine : vllm {{
  num_gpu_blocks 11; max_model_len 4096; max_num_batched_tokens 120; max_num_seqs 2; async_scheduling false;
  {waiting}
  cost 1;
}}
stage clock : delay;
workload {{ arrive batch(3); init {{ set prompt = serial == 0 ? 120 : serial == 1 ? 100 : 48; }} }}
session {{
  run clock (serial > 0);
  request r on engine (prompt, serial == 0 ? 6 : 1);
  observe first = first_token(r);
}}
run {{ horizon 100; }}
"""
SHORTS_FIRST = "short_request_first { threshold 64; long_max_wait_ms 3000; }"


@pytest.mark.parametrize("waiting", [f"waiting {SHORTS_FIRST}", "waiting by (lane(prompt_tokens, waited));"])
def test_a_choice_that_found_no_room_is_kept(waiting: str) -> None:
    """10 blocks, 8 of them taken until 6: the short prompt of 3 was looked at, and keeps its turn (V-008).

    At 6 the long one has waited 5 s of 3 and goes second all the same: 48 and 72 of 120 tokens, 28 the
    step after.
    """
    series = serq.run(serq.compile(source=PINNED.format(waiting=waiting))).records.series
    assert series["first"].values == [1, 7, 8]
    assert series["first"].sessions == [0, 2, 1]


def test_lanes_of_the_base_language_choose_anew() -> None:
    """`queue by` looks again whenever there may be room: the long request has grown old and goes first."""
    source = """
    def lane(length, time) = length <= 64 ? 2 : time >= 3 ? 1 : 3;
    pool running { cap 2; queue by (lane(prompt, waited)); admit via npu; }
    pool kv { cap 160; block 16; }
    stage npu : step { budget 120; chunk 120; memory kv; cost 1; }
    stage clock : delay;
    workload { arrive batch(3); init { set prompt = serial == 0 ? 120 : serial == 1 ? 100 : 48; } }
    session {
      run clock (serial > 0);
      hold running (1), kv (prompt + 6) {
        observe selected = serial;
        prefill prompt;
        decode (serial == 0 ? 5 : 0);
      }
    }
    run { horizon 100; }
    """
    assert serq.run(serq.compile(source=source)).records.series["selected"].values == [0, 1, 2]


def test_only_the_head_of_the_long_lane_ages() -> None:
    """A fresh long request put in front hides the age of the old one, which keys would see (V-007)."""
    now = [0.0]
    lanes = ShortRequestFirstRequestQueue(ShortRequestFirstConfig(8, 3.0), lambda: now[0])
    keyed = KeyedRequestQueue(
        lambda r: (2 if r.num_prompt_tokens <= 8 else 1 if now[0] - r.arrival_time >= 0.003 else 3,)
    )
    old, fresh, short = request("old", 9), request("fresh", 9), request("short", 8)
    fresh.arrival_time = short.arrival_time = 0.004
    for queue in (lanes, keyed):
        now[0] = 0.0
        queue.add_request(old)
        now[0] = 0.004
        queue.add_request(short)
    lanes.prepend_request(fresh)
    keyed.add_request(fresh)
    assert [queue.pop_request().request_id for queue in (lanes, keyed)] == ["short", "old"]


def test_a_model_on_950_is_priced_and_sized() -> None:
    """Qwen3.5-27B has 64 layers in groups of 16; two attention calls are never worse than one here."""
    program = ROOT / "examples" / "vendors" / "ascend950_qwen27b.sq"
    seconds = {}
    for calls in (0, 1):
        report = serq.run(serq.compile(program, sets={"two_calls": calls}, horizon=40.0, warmup=0.0))
        (price,) = report.records.prices
        operators = {name: sum(found.values()) for name, found in price.ledger.operators.items()}
        seconds[calls] = operators["attention"] / price.ledger.steps
        assert {"gdn", "mlp", "attention", "lm_head", "host_overhead"} <= operators.keys()
        assert operators["host_overhead"] == pytest.approx(0.002 * price.ledger.steps)
    assert seconds[1] < seconds[0]
    assert 600 < dict(report.records.engines[0].options)["num_gpu_blocks"] < 700


def test_published_tables_price_the_linear_layers() -> None:
    """A decode of one request takes 24 layers of 42.564 or 14.1 us, as published."""
    report = serq.run(ROOT / "examples" / "vendors" / "gdn_tables.sq")
    fastest = [min(report.records.series[name].values) for name in ("tpot_multi_op", "tpot_fused")]
    assert fastest == pytest.approx([24 * 42.564e-6, 24 * 14.1e-6], rel=1e-3)
    for row in report.records.prices:
        assert row.ledger.operators.keys() == {"gdn_decode", "gdn_prefill"}
        assert "interpolated" in {evidence.value for evidence in row.ledger.operators["gdn_prefill"]}
