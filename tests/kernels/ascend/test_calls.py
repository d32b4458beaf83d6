"""Operator calls against hand-written ones (V-080 to V-094) and against the operators' schemas."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from serq.kernels.ascend.attention_shape import AttentionShape
from serq.kernels.ascend.attention_state import AttentionState
from serq.kernels.ascend.c8 import Int8Cache, int8_attention_calls
from serq.kernels.ascend.fia import attention_calls
from serq.kernels.ascend.gdn import (
    GatedDeltaNetBatch,
    GatedDeltaNetShape,
    gated_delta_net_calls,
    reclassified,
)
from serq.kernels.ascend.metadata import AttentionMetadata, build_metadata, start_locations
from serq.kernels.operator_call import OperatorCall, TensorArgument
from serq.kernels.operator_schema import OperatorCallError, check_call, parse_schemas

QWEN35_27B = AttentionShape(num_heads=24, num_kv_heads=4, head_dim=256, num_blocks=100)
GDN_27B = GatedDeltaNetShape(num_k_heads=16, num_v_heads=48, num_states=9)


def metadata(
    query_lens: Sequence[int], seq_lens: Sequence[int], state: AttentionState, threshold: int = 1
) -> AttentionMetadata:
    starts = start_locations(query_lens)
    return build_metadata(starts, seq_lens, state, threshold=threshold, block_table_width=64)


def mixed_step() -> AttentionMetadata:
    """The PR's step: 23 decodes of 8192 tokens beside a prefill of 3968."""
    lengths, totals = [1] * 23 + [3968], [8192] * 24
    return metadata(lengths, totals, AttentionState.CHUNKED_PREFILL)


def test_one_call_covers_a_mixed_batch() -> None:
    write, attention = attention_calls(mixed_step(), QWEN35_27B)
    assert write.keywords["cache_mode"] == "Norm"
    ends = attention.keywords["actual_seq_lengths"]
    assert ends == (*range(1, 24), 3991)
    assert attention.keywords["actual_seq_lengths_kv"] == (8192,) * 24
    assert attention.keywords["query"] == TensorArgument((3991, 24, 256), "bfloat16")
    assert attention.keywords["key"] == TensorArgument((100, 128, 1024), "bfloat16")
    assert attention.keywords["scale"] == 1 / 16


def test_the_split_counts_each_token_once_and_starts_again_at_zero() -> None:
    _, decodes, prefills = attention_calls(mixed_step(), QWEN35_27B, split_mixed=True)
    assert decodes.keywords["actual_seq_lengths"] == tuple(range(1, 24))
    assert decodes.keywords["block_table"] == TensorArgument((23, 64), "int32")
    assert prefills.keywords["actual_seq_lengths"] == (3968,)
    assert prefills.keywords["query"] == TensorArgument((3968, 24, 256), "bfloat16")


@pytest.mark.parametrize("change", [{"sliding_window": 512}, {"sinks": True}])
def test_windows_and_sinks_are_never_split(change: dict[str, object]) -> None:
    shape = replace(QWEN35_27B, **change)  # type: ignore[arg-type]
    assert len(attention_calls(mixed_step(), shape, split_mixed=True)) == 2


def test_fresh_prompts_attend_over_their_own_keys_with_cumulative_lengths() -> None:
    step = metadata([3, 8], [3, 8], AttentionState.PREFILL_NO_CACHE)
    attention = attention_calls(step, QWEN35_27B)[1]
    assert attention.keywords["block_table"] is None
    assert attention.keywords["actual_seq_lengths_kv"] == (3, 11)


def test_an_int8_cache_is_gathered_for_all_prefills_as_soon_as_one_has_context() -> None:
    lengths, totals = [1, 4, 8], [20, 4, 18]
    step = metadata(lengths, totals, AttentionState.CHUNKED_PREFILL)
    _, decode, prefill = int8_attention_calls(step, Int8Cache(QWEN35_27B))
    assert decode.positional[0] == TensorArgument((1, 24, 1, 256), "bfloat16")
    assert prefill.keywords["key"] == TensorArgument((22, 4, 256), "float32")
    assert prefill.keywords["actual_seq_lengths_kv"] == TensorArgument((2,), "int64", (4, 22))


def test_a_mixed_gated_delta_net_step_convolves_once_and_splits_the_rule() -> None:
    batch = GatedDeltaNetBatch(decodes=2, prefill_lens=(70, 9))
    conv, recurrent, chunked = gated_delta_net_calls(batch, GDN_27B)
    assert conv.positional[0] == TensorArgument((81, 10240), "bfloat16")
    assert conv.keywords["run_mode"] == 0
    assert recurrent.keywords["actual_seq_lengths"] == TensorArgument((3,), "int32", (0, 1, 1))
    assert chunked.keywords["actual_seq_lengths"] == TensorArgument((2,), "int32", (70, 9))
    assert chunked.keywords["initial_state"] == TensorArgument((2, 48, 128, 128), "bfloat16")


def test_state_shapes_per_rank() -> None:
    whole = GatedDeltaNetShape(16, 64, num_states=2, num_speculative_tokens=3)
    rank = whole.on_rank(8)
    assert rank.conv_state.shape == (2, 6, 1536)
    assert rank.recurrent_state(1).shape == (1, 8, 128, 128)
    with pytest.raises(ValueError, match="3 tensor-parallel"):
        GDN_27B.on_rank(3)


def test_one_token_rows_beside_speculative_ones_are_prefills() -> None:
    assert reclassified([1, 1, 9], 0) == GatedDeltaNetBatch(2, (9,))
    assert reclassified([1, 9], 3) == GatedDeltaNetBatch(0, (1, 9), 3)


def every_call() -> list[OperatorCall]:
    decode = metadata([1, 1], [9, 5], AttentionState.DECODE_ONLY)
    sinks = replace(QWEN35_27B, sinks=True)
    calls = [*attention_calls(mixed_step(), QWEN35_27B, split_mixed=True), *attention_calls(decode, sinks)]
    calls += attention_calls(decode, QWEN35_27B, paged_decode=True)
    calls += int8_attention_calls(mixed_step(), Int8Cache(QWEN35_27B))
    batch = GatedDeltaNetBatch(decodes=1, prefill_lens=(7,), spec_rows=2)
    for fused in (True, False):
        calls += gated_delta_net_calls(batch, replace(GDN_27B, num_speculative_tokens=1), fused_chunk=fused)
    return calls


def test_every_call_fits_its_operators_schema() -> None:
    for call in every_call():
        check_call(call)


FIA = "npu_fused_infer_attention_score"
QUERY = TensorArgument((1, 8, 128), "bfloat16")


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (OperatorCall("torch_npu", "npu_fia"), "no schema"),
        (OperatorCall("torch_npu", FIA, (QUERY, QUERY)), "needs an argument 'value'"),
        (OperatorCall("torch_npu", FIA, (QUERY,) * 4), "takes 3 positional"),
        (OperatorCall("torch_npu", FIA, (QUERY,) * 3, {"query": QUERY}), "'query' twice"),
        (OperatorCall("torch_npu", FIA, (QUERY,) * 3, {"heads": 8}), "no argument 'heads'"),
        (OperatorCall("torch_npu", FIA, (QUERY,) * 3, {"num_heads": 8.0}), "float as 'num_heads'"),
        (OperatorCall("torch_npu", FIA, (QUERY,) * 3, {"actual_seq_lengths": 3}), "int as 'actual_seq"),
        (OperatorCall("torch_npu", FIA, (QUERY,) * 3, {"scale": None}), "NoneType as 'scale'"),
        (OperatorCall("torch_npu", FIA, (QUERY,) * 3, {"block_size": True}), "bool as 'block_size'"),
    ],
)
def test_a_call_that_the_operator_would_refuse_is_refused(call: OperatorCall, complaint: str) -> None:
    with pytest.raises(OperatorCallError, match=complaint):
        check_call(call)


def test_a_broken_schema_line_is_named() -> None:
    with pytest.raises(ValueError, match="not an operator schema"):
        parse_schemas(["torch_npu.broken("])
    with pytest.raises(ValueError, match="not a parameter"):
        parse_schemas(["torch_npu.broken(Tensor) -> ()"])
