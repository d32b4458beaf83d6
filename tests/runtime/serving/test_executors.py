"""Stages with `cost via`: steps take what the executor says, and the report says what it was made of."""

from __future__ import annotations

import json

import pytest

import serq
from serq.kernels.executor import DecodeTotals, Evidence, OperatorPrice, OutsideRange, Price
from serq.kernels.registry import BuiltExecutor, ExecutorOptions, PricedStage, Setting
from serq.kernels.step_batch import StepBatch

PROGRAM = """
executor e : roofline { model "Qwen3-8B"; device "910B3"; }
stage gpu : vllm {
  num_gpu_blocks 100; max_model_len 999; max_num_batched_tokens 256; max_num_seqs 8; cost via e;
}
workload { arrive batch(2); }
session { request r on gpu (100, 4); observe e2e = e2e(r); }
run { horizon 100; }
"""
STEP = """
executor e : roofline { model "Qwen3-8B"; device "910B3"; }
pool kv { cap 1000; }
stage gpu : step { budget 256; memory kv; cost via e; }
workload { arrive batch(1); }
session { hold kv (110) { run gpu prefill (100) growing kv; run gpu decode (4) growing kv; } }
run { horizon 100; }
"""


class Stated:
    """A step takes a tenth of a second a token; attention is measured up to 3 rows."""

    def price(self, batch: StepBatch) -> Price:
        rows = len(batch.rows)
        outside = (OutsideRange("rows", rows, 1, 3),) if rows > 3 else ()
        evidence = Evidence.EXTRAPOLATED if outside else Evidence.MEASURED
        return Price.of(
            (
                OperatorPrice("attention", 0.1 * rows, evidence, outside),
                OperatorPrice("linear", 0.1 * (batch.tokens - rows), Evidence.ASSUMED),
            )
        )

    def price_decodes(self, totals: DecodeTotals) -> Price | None:
        return None


@pytest.fixture
def stated(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(options: ExecutorOptions, stage: PricedStage) -> BuiltExecutor:
        assert (stage.max_num_seqs, stage.max_model_len, stage.num_gpu_blocks) == (8, 999, 100)
        return BuiltExecutor(Stated(), (Setting("rate", "0.1 s", "a test"),))

    monkeypatch.setattr("serq.kernels.roofline.factory.build", build)


def test_steps_take_what_the_executor_says(stated: None) -> None:
    """One step of 200 prompt tokens, then three of two: 20 + 3 x 0.2 seconds."""
    report = serq.run(serq.compile(source=PROGRAM))
    assert report.records.series["e2e"].values == pytest.approx([20.6, 20.6])
    (row,) = report.records.prices
    assert row.ledger.steps == 4 and row.ledger.seconds == pytest.approx(20.6)
    assert row.ledger.operators["attention"] == pytest.approx({Evidence.MEASURED: 0.8})
    assert row.ledger.operators["linear"] == pytest.approx({Evidence.ASSUMED: 19.8})
    assert not report.warnings
    lines = [line.split() for line in repr(report).splitlines()]
    assert ["gpu:", "attention", "0.8", "3.9", "%", "100.0", "%", "-"] in lines
    assert ["gpu:", "all", "of", "4", "steps", "20.6", "100.0", "%", "3.9", "%", "96.1", "%"] in lines
    (price,) = json.loads(report.to_json())["prices"]
    assert price["operators"]["attention"] == {"measured": pytest.approx(0.8)}
    assert price["settings"] == [{"name": "rate", "value": "0.1 s", "source": "a test"}]


def test_nothing_beyond_the_measured_range_is_silent(stated: None) -> None:
    report = serq.run(serq.compile(source=PROGRAM.replace("batch(2)", "batch(5)").replace("256", "500")))
    (warning,) = report.warnings
    assert warning.code == "outside-measured-range"
    assert warning.message == (
        "`attention` was priced outside what was measured in 4 step(s): rows 5, measured from 1 to 3"
    )
    assert warning.owner == "stage `gpu`, executor `e`"


def test_members_share_the_table_and_warm_up_is_left_out(stated: None) -> None:
    source = PROGRAM.replace("stage gpu ", "stage gpu[2] ").replace("on gpu ", "on gpu[serial] ")
    both = serq.run(serq.compile(source=source)).records.prices
    assert [(row.stage, row.ledger.steps) for row in both] == [("gpu", 8)]
    late = serq.run(serq.compile(source=source, warmup=5.0)).records.prices
    assert late[0].ledger.steps == 4  # the prompt and, planned while it runs, the step behind it came before


def test_a_step_stage_gives_its_totals() -> None:
    """100 prompt tokens at once, then four decodes with 101 to 104 units held."""
    report = serq.run(serq.compile(source=STEP))
    (row,) = report.records.prices
    assert row.ledger.steps == 5
    assert row.ledger.seconds == pytest.approx(report.records.stages[0].utilization * 100)


def test_an_executor_that_cannot_be_built_says_what_would_do() -> None:
    """When the program is compiled, at its place."""
    with pytest.raises(serq.CompileError) as caught:
        serq.compile(source=PROGRAM.replace("910B3", "910B7"))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E439", "executor `e`: unknown device `910B7`")
    assert found.place == "<source>:2:10" and found.help == "did you mean `910B4`?"
    json_text = serq.compile(source=PROGRAM).to_json().replace("910B3", "910B7")
    with pytest.raises(serq.CompileError) as caught:
        serq.Program.from_json(json_text)
    assert caught.value.diagnostics[0].owner == "executor `e`"


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ('roofline { model "Qwen3-8B"; device "910B4"; tensor_parallel_size 3; }', "32 query heads"),
        ('roofline { model "Qwen3-32B"; device "910B4"; }', "take 61.0 GiB a rank, and Ascend910B4 has 32"),
        ('table { extrapolation nearest; }', "it prices nothing"),
        ('table { fia ascend950; model "Qwen3.5-28B"; }', "unknown model `Qwen3.5-28B`"),
        ('table { fia ascend950; model "Qwen3.5-27B"; tensor_parallel_size 5; }', "24 query heads"),
    ],
)  # fmt: skip
def test_what_check_finds(executor: str, message: str) -> None:
    (found,) = serq.check(source=f"executor e : {executor} run {{ horizon 1; }}")
    assert found.code == "E439" and message in found.message


SIZED = """
executor e : roofline { model "Qwen3.5-27B"; device "950PR_9589"; }
stage gpu : vllm {
  max_model_len 32768; enable_prefix_caching false; gpu_memory_utilization 0.9;
  group full { block_size 1536; } group mamba { mode none; }
  group mamba { mode none; } group mamba { mode none; }
  cost via e;
}
workload { arrive batch(2); }
session { request r on gpu (100, 4); }
run { horizon 100; }
"""


def test_blocks_are_computed_where_they_are_not_said() -> None:
    """675, as `serq memory` prints for these options; the report shows the figures that it follows from."""
    report = serq.run(serq.compile(source=SIZED))
    assert dict(report.records.engines[0].options)["num_gpu_blocks"] == 675
    settings = {setting.name: setting for setting in report.records.prices[0].settings}
    assert settings["memory: weights"].value == "50.10 GiB"
    assert "675 blocks of 101,646,336 bytes" in settings["memory: KV cache"].source
    less = serq.run(serq.compile(source=SIZED.replace("0.9", "0.5")))
    assert dict(less.records.engines[0].options)["num_gpu_blocks"] == 134


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("  group mamba { mode none; } group mamba { mode none; }\n", "", "has 3 group(s) of linear"),
        ("block_size 1536", "block_size 1024", "its blocks have 1536 tokens at least"),
        ("0.9", "0.4", "`gpu_memory_utilization` above 0.402 leaves room"),
    ],
)
def test_blocks_that_cannot_be_computed(before: str, after: str, words: str) -> None:
    assert before in SIZED
    with pytest.raises(serq.RunError) as caught:
        serq.run(serq.compile(source=SIZED.replace(before, after)))
    assert words in str(caught.value)
