"""Steps of every attention state really run: with torch where it is installed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import serq
from serq.kernels.measuring.bench import Repeats, TorchBench
from serq.kernels.measuring.tensors import StepTensors
from serq.kernels.operator_call import OperatorCall, TensorArgument
from serq.kernels.operator_schema import OperatorCallError
from serq.kernels.reference.calls import run_call
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.kernels.step_shape import parse_shape
from tests.kernels.measuring.step_calls import EXPERTS, STEPS, calls, operators

torch = pytest.importorskip("torch", reason="needs torch (pip install 'serq[torch]')")

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


def test_a_measured_run_is_reproduced_from_its_tables(tmp_path: Path) -> None:
    """An eighth of Qwen3-0.6B, measured for good; then without torch, from what was written."""
    program = """executor e : %s
    stage npu : vllm { num_gpu_blocks 100; max_model_len 512; cost via e; }
    workload { arrive batch(2); }
    session { request r on npu (20 + 30 * serial, 3); observe e2e = e2e(r); }
    run { horizon 1000; }
    """
    path = tmp_path / "p.sq"
    path.write_text(
        program % 'torch { model "Qwen3-0.6B"; tables "t"; tensor_parallel_size 8; link_bandwidth 1e10; '
        "warmup 1; repeats 3; }"
    )
    measured = serq.run(serq.compile(path))
    path.write_text(program % 'table { tables "t"; extrapolation error; }')
    table = serq.run(serq.compile(path))
    samples = measured.records.series["e2e"].values
    assert len(samples) == 2 and min(samples) > 0
    assert samples == table.records.series["e2e"].values
    assert measured.records.prices[0].ledger == table.records.prices[0].ledger
