"""The executor for Ascend without an NPU: what it says where something is missing, and what it would call."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import serq
from serq.errors import CompileError, RunError
from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.measuring import factory
from serq.kernels.measuring.bench import Repeats
from serq.kernels.measuring.npu_bench import NpuBench
from serq.kernels.operator_schema import OperatorCallError
from serq.kernels.registry import BuiltExecutor, PricedStage, create_executor
from serq.kernels.step_batch import BatchRow, StepBatch
from tests.kernels.measuring.fake_bench import FakeBench

PROGRAM = """executor e : torch_npu { model "Qwen3.5-0.8B"; device "%s"; tables "t"; }
stage npu : vllm { num_gpu_blocks 90; max_model_len 512; cost via e; }
workload { arrive batch(1); }
session { request r on npu (4, 2); }
run { horizon 1; }
"""


def built(folder: Path, device: str, **options: Any) -> BuiltExecutor:
    given = {"model": "Qwen3.5-27B", "device": device, "tables": "t", **options}
    declared = Declared("e", "torch_npu", tuple(ExecutorOption(name, value) for name, value in given.items()))
    return create_executor(declared, PricedStage("gpu", folder=folder, max_model_len=8192))


def test_without_torch_npu_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    path = tmp_path / "p.sq"
    path.write_text(PROGRAM % "910B3")
    with pytest.raises(RunError, match=r"needs torch_npu and CANN.*serq\[npu\]") as raised:
        serq.run(serq.compile(path))
    assert raised.value.exit_code == 1


def test_a_device_that_is_no_npu_is_told_when_a_program_is_compiled() -> None:
    with pytest.raises(CompileError, match="H200 SXM is no Ascend device"):
        serq.compile(source=PROGRAM % "H200")


def test_the_device_decides_whether_mixed_steps_are_split(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ascend 950 makes two attention calls, 910B one; the report says that nothing was run on hardware."""
    rows = (BatchRow("0", 1, 99, 99, 0, True), BatchRow("1", 40, 0, 40, 0, False))
    for device, calls in (("950PR_9589", 2), ("910B3", 1)):
        bench = FakeBench()
        monkeypatch.setattr(factory, "NpuBench", lambda repeats, bench=bench: bench)
        made = built(tmp_path / device, device)
        made.executor.price(StepBatch.of(rows))
        fused = [call for group in bench.timed for call in group if call.operator.startswith("npu_fused")]
        assert len(fused) == calls
        said = {setting.name: setting.value for setting in made.settings}
        assert "not been run on hardware" in said["caution"]


class FakeRuntime:
    """``torch.npu`` on no NPU: its events are a clock that goes on by a millisecond."""

    def __init__(self, available: bool = True) -> None:
        self.now, self._available = 0, available

    def is_available(self) -> bool:
        return self._available

    def synchronize(self) -> None:
        pass

    def get_device_name(self) -> str:
        return "Ascend910B3"

    def Event(self, enable_timing: bool) -> Any:
        assert enable_timing
        runtime = self

        class Event:
            at = 0

            def record(self) -> None:
                runtime.now += 1
                self.at = runtime.now

            def elapsed_time(self, end: Any) -> float:
                return float(end.at - self.at)

        return Event()


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A torch_npu whose operators are the references, and tensors on the CPU; notes every call."""
    torch = pytest.importorskip("torch", reason="needs torch (pip install 'serq[torch]')")
    from serq.kernels.measuring import tensors
    from serq.kernels.operator_call import OperatorCall
    from serq.kernels.reference.calls import run_call

    made: list[tuple[str, dict[str, Any]]] = []

    class Operators:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("npu_causal_conv1d_custom") or "npu" in name:
                return lambda *args, **kwargs: self.run(name, args, kwargs)
            raise AttributeError(name)

        def run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            made.append((name, kwargs))
            result = run_call(OperatorCall("torch_npu", name), args, kwargs)
            return (result, None) if name.startswith("npu_fused") else result

    package = ModuleType("torch_npu")
    package.__version__ = "2.10"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_npu", package)
    monkeypatch.setattr(torch, "npu", FakeRuntime(), raising=False)
    monkeypatch.setattr(torch, "ops", SimpleNamespace(npu=Operators(), _C_ascend=Operators()))
    real = tensors.StepTensors
    monkeypatch.setattr(tensors, "StepTensors", lambda device: real("cpu"))
    return SimpleNamespace(made=made, torch=torch)


def test_what_the_operators_are_given(npu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Length lists are lists of integers of the host, tables and masks tensors; times are those of events."""
    from tests.kernels.measuring.step_calls import calls

    monkeypatch.setitem(sys.modules, "vllm_ascend", ModuleType("vllm_ascend"))
    monkeypatch.setitem(sys.modules, "vllm_ascend.vllm_ascend_C", ModuleType("vllm_ascend.vllm_ascend_C"))
    bench = NpuBench(Repeats(2, 3))
    timing = bench.time(calls("attention", "ChunkedPrefill", True, dtype="bfloat16"))
    assert timing.seconds == 1e-3
    assert [name for name, _ in npu.made] == [
        "npu_scatter_pa_kv_cache", "npu_fused_infer_attention_score", "npu_fused_infer_attention_score"
    ] * 6  # fmt: skip
    _, decode, prefill = (kwargs for _, kwargs in npu.made[:3])
    assert (decode["actual_seq_lengths"], decode["actual_seq_lengths_kv"]) == ([1, 2], [300, 129])
    assert (prefill["actual_seq_lengths"], prefill["actual_seq_lengths_kv"]) == ([70, 75], [200, 5])
    assert decode["block_table"].dtype == npu.torch.int32 and decode["atten_mask"].shape == (2048, 2048)
    assert bench.time(calls("gdn", "ChunkedPrefill", dtype="bfloat16")).seconds == 1e-3
    assert bench.software["torch_npu"] == "2.10" and bench.device_name == "Ascend910B3"


def test_an_operator_that_is_not_installed_is_named(
    npu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.kernels.measuring.step_calls import calls

    bench = NpuBench(Repeats(0, 1))
    with pytest.raises(OperatorCallError, match="need vllm-ascend's operators"):
        bench.time(calls("gdn", "DecodeOnly", dtype="bfloat16"))
    monkeypatch.setattr(npu.torch, "ops", SimpleNamespace(npu=SimpleNamespace()))
    with pytest.raises(OperatorCallError, match=r"no torch.ops.npu.npu_scatter_pa_kv_cache or torch_npu"):
        bench.time(calls("attention", "DecodeOnly", dtype="bfloat16"))


def test_no_device_is_an_error(npu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu.torch, "npu", FakeRuntime(available=False))
    with pytest.raises(RunError, match="finds no NPU"):
        NpuBench(Repeats(0, 1))
