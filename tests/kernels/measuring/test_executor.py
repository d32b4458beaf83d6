"""Measuring executors: a shape is measured once, a run from its tables is the same, calls are as recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import serq
from serq.errors import CompileError, RunError
from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.ascend.graph_mode import DeviceFamily, GraphOptions
from serq.kernels.ascend.layout import AscendLayoutEngine, AscendLayoutOptions
from serq.kernels.catalogue.models import models
from serq.kernels.executor import Evidence
from serq.kernels.measuring import factory
from serq.kernels.measuring.operators import OperatorPlan
from serq.kernels.operator_call import TensorArgument
from serq.kernels.registry import BuiltExecutor, PricedStage, create_executor
from serq.kernels.roofline.shard import Shard
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.oracle.ascend.operator_tables import shown_call
from tests.kernels.measuring.fake_bench import FakeBench
from tests.shared import ROOT

RECORDINGS = ROOT / "tests" / "oracle" / "ascend" / "recordings"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeBench:
    """No torch is needed where nothing runs."""
    made = FakeBench()
    monkeypatch.setattr(factory, "find_spec", lambda name: object())
    monkeypatch.setattr(factory, "TorchBench", lambda device, repeats: made)
    monkeypatch.setitem(__import__("sys").modules, "torch", object())
    return made


def built(folder: Path, stage: PricedStage | None = None, **options: Any) -> BuiltExecutor:
    given = {"model": "Qwen3.5-0.8B", "tables": "tables", **options}
    declared = Declared("e", "torch", tuple(ExecutorOption(name, value) for name, value in given.items()))
    return create_executor(declared, stage or PricedStage("gpu", folder=folder, max_model_len=4096))


def decodes(*contexts: int) -> StepBatch:
    return StepBatch.of(tuple(BatchRow(str(i), 1, c, 1, 0, True) for i, c in enumerate(contexts)))


def prefill(query: int, computed: int = 0) -> BatchRow:
    return BatchRow("p", query, computed, query + computed, 0, False)


def test_a_shape_is_measured_once(tmp_path: Path, bench: FakeBench) -> None:
    executor = built(tmp_path).executor
    first = executor.price(decodes(100, 300))
    count = len(bench.timed)
    assert [operator.operator for operator in first.operators] == [
        "attention", "attention_projections", "embedding", "gdn", "gdn_projections", "lm_head", "mlp",
        "norms_and_activations",
    ]  # fmt: skip
    assert count == 8 and {operator.evidence for operator in first.operators} == {Evidence.MEASURED}
    assert executor.price(decodes(290, 110)) == first  # the same blocks of 128 keys, in another order
    assert len(bench.timed) == count
    executor.price(decodes(500, 300))  # attention and GDN know the shape; the rest has two tokens as before
    assert len(bench.timed) == count + 2


def test_an_operator_counts_once_a_layer(tmp_path: Path, bench: FakeBench) -> None:
    """Qwen3.5-0.8B: 24 layers, 6 of them with full attention."""
    price = built(tmp_path).executor.price(decodes(100))
    layers = {"attention": 6, "attention_projections": 6, "gdn": 18, "gdn_projections": 18, "embedding": 1,
              "lm_head": 1, "mlp": 24, "norms_and_activations": 24}  # fmt: skip
    for operator in price.operators:
        row = (tmp_path / "tables" / f"{operator.operator}.csv").read_text().splitlines()[1]
        assert operator.seconds == float(row.split(",")[1]) * layers[operator.operator]


PROGRAM = """executor e : %s
stage npu : vllm { num_gpu_blocks 900; max_model_len 4096; max_num_batched_tokens 256; cost via e; }
workload { arrive poisson(300); }
session { request r on npu (40 + floor(~uniform(0, 300)), 1 + floor(~uniform(0, 30))); observe e2e = e2e(r); }
run { horizon 1; }
"""
MEASURES = 'torch { model "Qwen3.5-0.8B"; tables "tables"; %s }'
PARALLEL = 'tensor_parallel_size 2; link_bandwidth 1e10; link_latency 1e-6; layout vllm_ascend;'


@pytest.mark.parametrize("options", ["", "context_step 32; attention split;", PARALLEL])
def test_a_run_from_the_tables_is_the_same_run(tmp_path: Path, bench: FakeBench, options: str) -> None:
    path = tmp_path / "p.sq"
    path.write_text(PROGRAM % (MEASURES % options))
    measured = serq.run(serq.compile(path))
    count = len(bench.timed)
    again = serq.run(serq.compile(path))
    path.write_text(PROGRAM % 'table { tables "tables"; extrapolation error; }')
    table = serq.run(serq.compile(path))
    assert len(bench.timed) == count > 50
    samples = measured.records.series["e2e"].values
    assert len(samples) > 20
    assert samples == again.records.series["e2e"].values == table.records.series["e2e"].values
    ledger, other = measured.records.prices[0].ledger, table.records.prices[0].ledger
    assert ledger == other and ledger.seconds > 0
    for report in (again, table):
        assert repr(report.records.requests) == repr(measured.records.requests)  # times of NaN, too


def test_a_step_that_no_table_has_is_an_error(tmp_path: Path, bench: FakeBench) -> None:
    built(tmp_path).executor.price(decodes(100))
    declared = Declared("t", "table", (ExecutorOption("tables", "tables"),))
    table = create_executor(declared, PricedStage("gpu", folder=tmp_path)).executor
    with pytest.raises(RunError, match="`attention` was not measured at a step `d1@1024`"):
        table.price(decodes(1000))


@pytest.mark.parametrize(("attention", "calls"), [("split", 2), ("mixed", 1)])
@pytest.mark.parametrize("layout", ["plain", "vllm_ascend", "sglang"])
def test_a_mixed_step_makes_one_attention_call_or_two(
    tmp_path: Path, bench: FakeBench, attention: str, calls: int, layout: str
) -> None:
    batch = StepBatch.of((*decodes(200, 300).rows, prefill(64)))
    built(tmp_path, attention=attention, layout=layout).executor.price(batch)
    fused = [
        call
        for group in bench.timed
        for call in group
        if call.operator == "npu_fused_infer_attention_score"
    ]
    assert len(fused) == calls


def test_experts_are_shared_evenly(tmp_path: Path, bench: FakeBench) -> None:
    """Qwen3-30B-A3B, 5 tokens, 8 of 128 experts each: 40 pairs, one for each of the first 40 experts."""
    built(tmp_path, model="Qwen3-30B-A3B").executor.price(decodes(1, 2, 3, 4, 5))
    (call,) = next(group for group in bench.timed if group[0].operator == "routed_experts")
    assert call.positional[3] == (1,) * 40 + (0,) * 88
    tensors = [part for part in call.positional if isinstance(part, TensorArgument)]
    assert [part.shape for part in tensors] == [(40, 2048), (128, 1536, 2048), (128, 2048, 768)]


def test_an_int8_cache_is_quantised_in_every_call(tmp_path: Path, bench: FakeBench) -> None:
    batch = StepBatch.of((*decodes(200, 300).rows, prefill(64, 100), prefill(9)))
    built(tmp_path, kv_cache_dtype="int8").executor.price(batch)
    attention = next(group for group in bench.timed if group[0].operator == "npu_scatter_pa_kv_cache")
    keys = [call.positional[1] if call.positional else call.argument("key") for call in attention]
    written, read, gathered = (key.dtype for key in keys if isinstance(key, TensorArgument))
    assert (written, read, gathered) == ("int8", "int8", "bfloat16")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"model": "Qwen9"}, "unknown model"),
        ({"tensor_parallel_size": 3}, "3 ranks cannot share"),
        ({"tensor_parallel_size": 2}, "which one device cannot measure"),
        ({"link_bandwidth": 1e9}, "one rank exchanges nothing"),
    ],
)
def test_options_that_cannot_be_met(
    tmp_path: Path, bench: FakeBench, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(RunError, match=complaint):
        built(tmp_path, **options)


def test_the_stages_layout_is_said_once(tmp_path: Path, bench: FakeBench) -> None:
    own = AscendLayoutEngine(AscendLayoutOptions(GraphOptions(8), 4096))
    stage = PricedStage("gpu", folder=tmp_path, layout=own)
    with pytest.raises(RunError, match="says `layout vllm_ascend`"):
        built(tmp_path, stage, layout="sglang")
    with pytest.raises(RunError, match="says how attention is called"):
        built(tmp_path, stage, attention="split")


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "find_spec", lambda name: None)
    with pytest.raises(RunError, match="needs torch") as raised:
        built(tmp_path)
    assert "serq[torch]" in str(raised.value) and raised.value.exit_code == 1


def test_unknown_models_are_told_when_a_program_is_compiled() -> None:
    with pytest.raises(CompileError, match="unknown model `Qwen9`"):
        serq.compile(source=PROGRAM % 'torch { model "Qwen9"; tables "t"; }')


# --- the calls are the recorded ones ------------------------------------------------------------------------


def recorded(kind: str) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    document = json.loads((RECORDINGS / f"{kind}_calls_table.json").read_text())
    pairs = zip(document["cases"], document["expected"], strict=True)
    return [(case, expected["calls"]) for case, expected in pairs]


def row_of(number: int, query: int, total: int, drafts: int) -> BatchRow:
    computed = total - query
    decode = query <= 1 + drafts < total
    return BatchRow(str(number), query, computed, computed if decode else total, drafts * (query > 1), decode)


def plan_calls(case: dict[str, Any], int8: bool) -> list[dict[str, Any]]:
    """What a measuring executor would run for the rows of a recorded case, as the recordings write it."""
    drafts = case.get("decode_threshold", 1) - 1
    rows = tuple(
        row_of(number, query, total, drafts)
        for number, (query, total) in enumerate(zip(case["query_lens"], case["seq_lens"], strict=True))
    )
    graphs = GraphOptions(
        8, device=DeviceFamily(case.get("device", "A2")), enforce_eager=True, num_speculative_tokens=drafts
    )
    hit = case["state"] == "PrefillCacheHit"
    options = AscendLayoutOptions(
        graphs, 4 * 128, speculative_method="mtp" if drafts else None, chunked_prefill=not hit
    )
    model = create_shard(case)
    plan = OperatorPlan(model, "bfloat16", int8_cache=int8, num_speculative_tokens=drafts)
    batch = StepBatch.of(rows)
    layout = AscendLayoutEngine(options).layout(batch)
    assert layout.state.attention.label == case["state"]
    calls = next(made for made in plan.operators(batch, layout) if made.name == "attention").calls
    return [shown_call(call) for call in calls]


def create_shard(case: dict[str, Any]) -> Any:
    """A model with the recorded heads: 8 of 2 KV heads, dimension 128."""
    whole = models()["Qwen3-8B"]
    return Shard(replace(whole, num_heads=8, num_kv_heads=2, head_dim=case.get("head_dim", 128)))


def same_but_for_the_cache(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """The recordings have a cache of 16 blocks and slots from 0; a step has the blocks that it needs."""
    assert [call["op"] for call in ours] == [call["op"] for call in theirs]
    for own, other in zip(ours, theirs, strict=True):
        assert own.keys() == other.keys()
        for name, value in own.items():
            recorded_value = other[name]
            if isinstance(value, dict) and name != "atten_mask":
                assert value["dtype"] == recorded_value["dtype"] or recorded_value["dtype"] == "float32"
                paged = value["shape"][1:] == recorded_value["shape"][1:] and recorded_value["shape"][0] == 16
                assert paged or value["shape"] == recorded_value["shape"], (name, value, recorded_value)
                if name != "slot_mapping":
                    assert value.get("values") == recorded_value.get("values")
            else:
                assert value == recorded_value, name


def in_device_order(case: dict[str, Any]) -> bool:
    """A layout puts fresh prompts last; one recording has another order, which no step has."""
    fresh = [query == total for query, total in zip(case["query_lens"], case["seq_lens"], strict=True)]
    return fresh == sorted(fresh)


def state_of(value: Any) -> str:
    return str(value["state"]) if isinstance(value, dict) else ""


PLAIN = [
    case for case in recorded("fia")
    if not {"paged", "sliding_window", "causal", "sinks"} & case[0].keys()
]  # fmt: skip


QUANTISED = [case for case in recorded("c8") if in_device_order(case[0])]


@pytest.mark.parametrize(("case", "calls"), PLAIN, ids=state_of)
def test_attention_is_called_as_recorded(case: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    same_but_for_the_cache(plan_calls(case, int8=False), calls)


def test_every_attention_state_is_recorded() -> None:
    assert {case["state"] for case, _ in PLAIN} == {
        "PrefillNoCache", "PrefillCacheHit", "DecodeOnly", "ChunkedPrefill", "SpecDecoding"
    }  # fmt: skip


@pytest.mark.parametrize(("case", "calls"), QUANTISED, ids=state_of)
def test_int8_attention_is_called_as_recorded(case: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    same_but_for_the_cache(plan_calls(case, int8=True), calls)
