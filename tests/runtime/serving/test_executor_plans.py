"""What an executor charges for planned steps, and what the ledger says of it, is what the walk is charged."""

from __future__ import annotations

from typing import Any

import pytest

from serq import api
from serq.kernels.executor import DecodeTotals, Evidence, OperatorPrice, Price
from serq.kernels.registry import BuiltExecutor, ExecutorOptions, PricedStage
from serq.kernels.step_batch import StepBatch
from serq.runtime.records import Records
from serq.runtime.serving.decode_plans import sees_rows
from serq.runtime.simulation import simulate
from serq.runtime.vllm.fast.reasons import WalkReason
from tests.fuzz.fast_path import columns

ROOFLINE = 'roofline { model "Qwen3-8B"; device "910B3"; }'
MEASURED_ATTENTION = 'table { fia ascend950; model "Qwen3.5-27B"; }'
PROGRAM = """
executor e : EXECUTOR
stage gpu : vllm {
  num_gpu_blocks 60; max_model_len 400; max_num_batched_tokens 64; max_num_seqs 6; OPTIONS cost via e;
}
workload { arrive poisson(3); }
session { request r on gpu (70, 6 + floor(~uniform(0, 60))); }
run { horizon 12; warmup 2; seed 10; }
"""


def program(executor: str, options: str = "") -> api.Program:
    return api.compile(source=PROGRAM.replace("EXECUTOR", executor).replace("OPTIONS", options))


def recorded(records: Records) -> dict[str, Any]:
    return {**columns(records), "prices": repr([(row.stage, row.ledger) for row in records.prices])}


@pytest.mark.parametrize("executor", [ROOFLINE, MEASURED_ATTENTION])
@pytest.mark.parametrize("options", ["", "async_scheduling false;", "enable_prefix_caching false;"])
@pytest.mark.parametrize("mode", ["auto", "planned"])
def test_planned_steps_are_charged_and_noted_as_walked_ones(
    executor: str, options: str, mode: api.EngineMode
) -> None:
    found = program(executor, options)
    walk, fast = (simulate(found.ir, engine=engine) for engine in ("reference", mode))
    assert (fast.clock_reason is None) == (mode == "auto")
    assert recorded(walk) == recorded(fast)
    assert fast.engines[0].planned_steps > fast.engines[0].steps / 3
    assert walk.engines[0].planned_steps == 0


class ByRows:
    """A step takes as long as its rows are different."""

    def price(self, batch: StepBatch) -> Price:
        different = len({row.computed for row in batch.rows})
        return Price.of((OperatorPrice("all", 0.1 * different, Evidence.ASSUMED),))

    def price_decodes(self, totals: DecodeTotals) -> Price | None:
        return None


def test_who_must_see_the_rows_sees_those_of_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(options: ExecutorOptions, stage: PricedStage) -> BuiltExecutor:
        return BuiltExecutor(ByRows(), ())

    monkeypatch.setattr("serq.kernels.roofline.factory.build", build)
    assert sees_rows(ByRows())
    row = simulate(program(ROOFLINE).ir).engines[0]
    assert dict(row.walked_steps).keys() == {WalkReason.ROWS.value} and row.planned_steps == 0
