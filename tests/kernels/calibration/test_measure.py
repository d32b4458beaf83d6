"""Carrying out a plan: killed and gone on with, and the tables price steps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.calibration.measure import measure
from serq.kernels.calibration.plan import CalibrationPlan, Target, make_plan, step_at
from serq.kernels.executor import Evidence
from serq.kernels.measuring import factory
from serq.kernels.measuring.bench import Timing
from serq.kernels.operator_call import OperatorCall
from serq.kernels.registry import PricedStage, create_executor
from serq.kernels.step_batch import BatchRow, StepBatch
from tests.kernels.measuring.fake_bench import FakeBench
from tests.shared import ROOT


def small_plan() -> CalibrationPlan:
    limits = {"max_num_batched_tokens": 64, "max_num_seqs": 4, "max_model_len": 512}
    return make_plan(Target(model="Qwen3.5-0.8B", device="cpu", **limits))  # type: ignore[arg-type]


class KilledBench(FakeBench):
    """Ends the process in the middle of its thirtieth measurement."""

    def time(self, calls: Sequence[OperatorCall]) -> Timing:
        if len(self.timed) == 29:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().time(calls)


def use(bench: FakeBench) -> None:
    factory.find_spec = lambda name: object()  # type: ignore[assignment, attr-defined]
    factory.TorchBench = lambda device, repeats: bench  # type: ignore[assignment, misc]
    sys.modules.setdefault("torch", sys)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    made = FakeBench()
    monkeypatch.setattr(factory, "find_spec", lambda name: object())
    monkeypatch.setattr(factory, "TorchBench", lambda device, repeats: made)
    monkeypatch.setitem(sys.modules, "torch", object())
    return made


def test_a_killed_calibration_goes_on(tmp_path: Path, bench: FakeBench) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.kernels.calibration.test_measure import KilledBench, measure, small_plan, use
use(KilledBench())
measure(small_plan(), Path({str(tmp_path)!r}))
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    plan = small_plan()
    seen: list[tuple[int, int]] = []
    fresh = measure(plan, tmp_path, lambda done, total, name: seen.append((done, total)))
    assert fresh == len(bench.timed) == plan.size - 29
    assert seen[-1] == (plan.size, plan.size)
    assert measure(plan, tmp_path) == 0


def test_the_tables_price_steps(tmp_path: Path, bench: FakeBench) -> None:
    """At a planned point the price is what was measured there, times the layers."""
    plan = small_plan()
    measure(plan, tmp_path / "c")
    declared = Declared("t", "table", (ExecutorOption("tables", "c"),))
    executor = create_executor(declared, PricedStage("npu", folder=tmp_path)).executor
    axes = ("decoders", "mean_context_decode")
    price = executor.price(step_at(axes, (4, 127)))
    assert {operator.operator for operator in price.operators} == {
        "attention_decodes", "attention_projections", "embedding", "gdn_decodes", "gdn_projections",
        "lm_head", "mlp", "norms_and_activations",
    }  # fmt: skip
    assert {operator.evidence for operator in price.operators} == {Evidence.MEASURED}
    rows = (tmp_path / "c" / "attention_decodes.csv").read_text().splitlines()
    row = next(line.split(",") for line in rows if line.startswith("4,127,"))
    found = next(op.seconds for op in price.operators if op.operator == "attention_decodes")
    assert found == float(row[2]) * 6
    mixed = StepBatch.of((BatchRow("0", 1, 200, 200, 0, True), BatchRow("1", 20, 0, 20, 0, False)))
    names = [operator.operator for operator in executor.price(mixed).operators]
    assert [name for name in names if name.startswith("attention_") and name != "attention_projections"] == [
        "attention_mixed"
    ]
    assert {"gdn_decodes", "gdn_prefills"} <= set(names)


def test_the_calls_of_a_point_are_those_of_its_step(tmp_path: Path, bench: FakeBench) -> None:
    """16 tokens behind 511 computed: 527 keys in five blocks, one row of the block table."""
    measure(make_plan(Target(model="Qwen3-0.6B", device="cpu", max_num_batched_tokens=16, max_num_seqs=1,
                             max_model_len=512)), tmp_path)  # fmt: skip
    found = [
        call.argument("actual_seq_lengths_kv")
        for group in bench.timed
        for call in group
        if call.operator.startswith("npu_fused") and call.argument("actual_seq_lengths") == (16,)
    ]
    assert (527,) in found and (16,) in found
