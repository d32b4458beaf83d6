"""Steps of every attention state really run: with torch where it is installed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from serq.kernels.ascend.graph_mode import DeviceFamily, GraphOptions
from serq.kernels.ascend.layout import AscendLayoutEngine, AscendLayoutOptions
from serq.kernels.catalogue.models import models
from serq.kernels.measuring.bench import Repeats, TorchBench
from serq.kernels.measuring.operators import MeasuredOperator, OperatorPlan
from serq.kernels.measuring.tensors import StepTensors
from serq.kernels.operator_call import OperatorCall, TensorArgument
from serq.kernels.operator_schema import OperatorCallError
from serq.kernels.reference.calls import run_call
from serq.kernels.roofline.shard import Shard
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.kernels.step_shape import parse_shape

torch = pytest.importorskip("torch", reason="needs torch (pip install 'serq[torch]')")

SMALL = replace(
    models()["Qwen3.5-0.8B"],
    hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=32, gdn_key_heads=2, gdn_value_heads=4,
    gdn_key_dim=16, gdn_value_dim=16, intermediate_size=96, vocab_size=200,
)  # fmt: skip
EXPERTS = replace(SMALL, intermediate_size=0, num_experts=6, experts_per_token=2, expert_intermediate_size=16)
STEPS = {
    "PrefillNoCache": "p70@70 p1@1",
    "PrefillCacheHit": "p9@300",
    "DecodeOnly": "d1@256*3",
    "ChunkedPrefill": "d1@300 d1@129 p70@200 p5@5",
    "SpecDecoding": "d1+2@200 d1+2@90",
}


def operators(state: str, split: bool = False, **changed: Any) -> list[MeasuredOperator]:
    batch = parse_shape(STEPS[state])
    drafts = 2 if state == "SpecDecoding" else 0
    family = DeviceFamily.A5 if split else DeviceFamily.A2
    graphs = GraphOptions(8, device=family, enforce_eager=True, num_speculative_tokens=drafts)
    options = AscendLayoutOptions(graphs, 512, "mtp" if drafts else None, state != "PrefillCacheHit")
    layout = AscendLayoutEngine(options).layout(batch)
    assert layout.state.attention.label == state
    model = changed.pop("model", SMALL)
    dtype = changed.pop("dtype", "float32")
    plan = OperatorPlan(Shard(model), dtype, num_speculative_tokens=drafts, **changed)
    return list(plan.operators(batch, layout))


def calls(name: str, state: str, split: bool = False) -> tuple[OperatorCall, ...]:
    return next(made.calls for made in operators(state, split) if made.name == name)


@pytest.mark.parametrize("state", STEPS)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    "changed",
    [{}, {"int8_cache": True, "dtype": "bfloat16"}, {"model": EXPERTS}],
    ids=("plain", "int8", "experts"),
)
def test_every_operator_of_every_state_runs(state: str, split: bool, changed: dict[str, Any]) -> None:
    bench = TorchBench("cpu", Repeats(1, 3, flush_bytes=1000))
    for operator in operators(state, split, **changed):
        timing = bench.time(operator.calls)
        assert 0 < timing.smallest <= timing.seconds <= timing.largest < 60, operator.name


def test_one_call_and_two_compute_the_same() -> None:
    """The tensors of the single call, cut at the boundary, give the two calls their outputs."""
    _, single = calls("attention", "ChunkedPrefill")
    _, *both = calls("attention", "ChunkedPrefill", split=True)
    assert len(both) == 2
    _, arguments = StepTensors("cpu").call(single)
    whole = run_call(single, [], arguments)
    parts, token, row = [], 0, 0
    for call in both:
        ends, lengths = call.argument("actual_seq_lengths"), call.argument("actual_seq_lengths_kv")
        assert isinstance(ends, tuple) and isinstance(lengths, tuple)
        own = {
            **arguments,
            "query": arguments["query"][token : token + ends[-1]],
            "actual_seq_lengths": list(ends),
            "actual_seq_lengths_kv": list(lengths),
            "block_table": arguments["block_table"][row : row + len(ends)],
        }
        parts.append(run_call(call, [], own))
        token, row = token + ends[-1], row + len(ends)
    assert token == whole.shape[0]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-5, atol=1e-6)


def test_every_row_has_blocks_of_its_own() -> None:
    """ChunkedPrefill split: 3 + 2 blocks of decodes, 2 + 1 of prefills; 0 where a row has no more."""
    tensors = StepTensors("cpu")
    used: list[int] = []
    for call in calls("attention", "ChunkedPrefill", split=True)[1:]:
        _, arguments = tensors.call(call)
        key = arguments["key"]
        assert key.shape[0] == 9
        table = arguments["block_table"]
        used += table[table > 0].tolist()
    assert sorted(used) == list(range(1, 9))


def test_the_causal_template_masks_what_lies_ahead() -> None:
    mask = {"atten_mask": TensorArgument((4, 4), "bool")}
    call = OperatorCall("torch_npu", "npu_fused_infer_attention_score", keywords=mask)
    _, arguments = StepTensors("cpu").call(call)
    assert arguments["atten_mask"].tolist() == [[column > row for column in range(4)] for row in range(4)]


def test_a_call_that_would_compute_nonsense_is_not_made() -> None:
    _, call = calls("attention", "DecodeOnly")
    broken = replace(call, keywords={**call.keywords, "num_key_value_heads": 3})
    with pytest.raises(OperatorCallError, match="4 query heads for 3"):
        TorchBench("cpu", Repeats(0, 1)).time([broken])
    rule = calls("gdn", "DecodeOnly")[1]
    long = replace(rule, keywords={**rule.keywords, "actual_seq_lengths": TensorArgument.of_lengths((0, 9))})
    with pytest.raises(OperatorCallError, match="a row of 9 tokens"):
        TorchBench("cpu", Repeats(0, 1)).time([long])


def test_device_and_software_are_named() -> None:
    bench = TorchBench("cpu", Repeats(0, 1))
    assert "CPU" in bench.device_name and bench.software["torch"] == torch.__version__


def test_rows_stay_a_batch() -> None:
    assert StepBatch.of((BatchRow("0", 1, 255, 255, 0, True),)) == parse_shape("d1@256")
