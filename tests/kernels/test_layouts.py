"""Whole steps laid out by either engine; the batch orders mirror each other."""

import pytest

from serq.kernels.ascend.attention_shape import AttentionShape
from serq.kernels.ascend.attention_state import AttentionState
from serq.kernels.ascend.gdn import GatedDeltaNetShape
from serq.kernels.ascend.graph_mode import DeviceFamily, GraphMode, GraphOptions
from serq.kernels.ascend.layout import AscendLayoutEngine, AscendLayoutOptions
from serq.kernels.layout import LayoutEngine
from serq.kernels.operator_call import TensorArgument
from serq.kernels.sglang.layout import (
    BoundaryError,
    ForwardMode,
    MixedBoundary,
    SglangLayoutEngine,
    SglangLayoutOptions,
)
from serq.kernels.step_batch import BatchRow, StepBatch

SHAPE = AttentionShape(num_heads=24, num_kv_heads=4, head_dim=256, num_blocks=400)
GDN = GatedDeltaNetShape(num_k_heads=16, num_v_heads=48, num_states=64)


def decode(name: str, total: int) -> BatchRow:
    return BatchRow(name, 1, total - 1, total - 10, 0, True)


def prefill(name: str, tokens: int, computed: int = 0) -> BatchRow:
    return BatchRow(name, tokens, computed, 10_000, 0, False)


def ascend(**options: object) -> AscendLayoutEngine:
    graphs = GraphOptions(32, **options)  # type: ignore[arg-type]
    return AscendLayoutEngine(AscendLayoutOptions(graphs, max_model_len=8192))


def mixed() -> StepBatch:
    return StepBatch.of((prefill("new", 40), decode("a", 300), prefill("old", 30, 128), decode("b", 50)))


def test_ascend_puts_decodes_first_and_fresh_prompts_last() -> None:
    layout = ascend().layout(mixed())
    assert layout.order == (1, 3, 2, 0)
    assert layout.state.attention is AttentionState.CHUNKED_PREFILL
    assert layout.metadata.query_ends == (1, 2, 32, 72)
    assert layout.metadata.seq_lens == (300, 50, 158, 40)
    assert (layout.graph, layout.num_tokens) == (GraphMode.NONE, 72)


def test_sglang_puts_prefills_first() -> None:
    layout = SglangLayoutEngine(SglangLayoutOptions(max_model_len=8192)).layout(mixed())
    assert layout.order == (0, 2, 1, 3)
    assert layout.mode is ForwardMode.MIXED
    assert layout.boundary == MixedBoundary(2, 70)
    prefills, decodes = layout.attention_calls(SHAPE)
    assert prefills.keywords["actual_seq_lengths"] == (40, 70)
    assert prefills.keywords["actual_seq_lengths_kv"] == (40, 158)
    assert decodes.keywords["actual_seq_lengths"] == (1, 2)
    assert decodes.keywords["actual_seq_lengths_kv"] == (300, 50)
    assert decodes.keywords["atten_mask"] == TensorArgument((2048, 2048), "bool")


def test_ascend_950_splits_a_mixed_step_and_a2_does_not() -> None:
    assert len(ascend(device=DeviceFamily.A5).layout(mixed()).attention_calls(SHAPE)) == 3
    assert len(ascend().layout(mixed()).attention_calls(SHAPE)) == 2


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        (SglangLayoutOptions(8192, device=DeviceFamily.A3), SHAPE),
        (SglangLayoutOptions(8192, split_mixed=False), SHAPE),
        (SglangLayoutOptions(8192), AttentionShape(24, 4, 256, 400, sliding_window=512)),
        (SglangLayoutOptions(8192), AttentionShape(24, 5, 256, 400)),
    ],
)
def test_the_gates_of_sglangs_split(options: SglangLayoutOptions, shape: AttentionShape) -> None:
    (single,) = SglangLayoutEngine(options).layout(mixed()).attention_calls(shape)
    assert single.keywords["actual_seq_lengths"] == (40, 70, 71, 72)


@pytest.mark.parametrize("boundary", [MixedBoundary(0, 0), MixedBoundary(4, 72), MixedBoundary(2, 69)])
def test_a_boundary_that_does_not_fit_is_refused(boundary: MixedBoundary) -> None:
    with pytest.raises(BoundaryError):
        boundary.check((40, 70, 71, 72))
    with pytest.raises(BoundaryError, match="one token"):
        MixedBoundary(1, 40).check((40, 70, 71))


def test_a_full_decode_graph_gets_dummy_rows() -> None:
    layout = ascend().layout(StepBatch.of(tuple(decode(str(row), 100 + row) for row in range(9))))
    assert (layout.graph, layout.num_tokens) == (GraphMode.FULL, 16)
    assert layout.metadata.query_ends == tuple(range(1, 17))
    assert layout.metadata.seq_lens == (*range(100, 109), *[1] * 7)
    write, attention = layout.attention_calls(SHAPE)
    assert write.keywords["slot_mapping"] == TensorArgument((9,), "int32")
    assert attention.keywords["query"] == TensorArgument((16, 24, 256), "bfloat16")


def test_listed_decode_batches_go_through_paged_attention_on_a2_only() -> None:
    def calls(device: DeviceFamily) -> list[str]:
        graphs = GraphOptions(32, device=device, mode=GraphMode.FULL_DECODE_ONLY)
        engine = AscendLayoutEngine(AscendLayoutOptions(graphs, 8192, paged_sizes=(2,)))
        batch = StepBatch.of((decode("a", 300), decode("b", 50)))
        return [call.operator for call in engine.layout(batch).attention_calls(SHAPE)]

    assert calls(DeviceFamily.A2)[1] == "_npu_paged_attention"
    assert calls(DeviceFamily.A5)[1] == "npu_fused_infer_attention_score"


def test_the_last_token_of_a_prompt_is_a_prefill_to_gated_delta_net() -> None:
    batch = StepBatch.of((decode("a", 300), prefill("last", 1, 9_999)))
    conv, recurrent, chunked = ascend().layout(batch).gated_delta_net_calls(GDN)
    assert conv.keywords["run_mode"] == 0
    assert recurrent.keywords["actual_seq_lengths"] == TensorArgument.of_lengths((0, 1))
    assert chunked.keywords["actual_seq_lengths"] == TensorArgument.of_lengths((1,))


def test_an_int8_cache_has_its_own_calls() -> None:
    shape = AttentionShape(24, 4, 256, 400, int8_cache=True)
    write, decodes, prefills = ascend().layout(mixed()).attention_calls(shape)
    assert "cache_mode" not in write.keywords
    assert decodes.keywords["input_layout"] == "BNSD"
    assert prefills.keywords["actual_seq_lengths"] == (30, 70)


def test_both_engines_are_layout_engines() -> None:
    engines: list[LayoutEngine] = [ascend(), SglangLayoutEngine(SglangLayoutOptions(8192))]
    batch = StepBatch.of((decode("a", 300),))
    assert [engine.layout(batch).order for engine in engines] == [(0,), (0,)]
    (recurrent,) = (c for c in engines[1].layout(batch).gated_delta_net_calls(GDN) if "rule" in c.operator)
    assert recurrent.operator == "npu_recurrent_gated_delta_rule"
