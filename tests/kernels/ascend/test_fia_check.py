"""The operator's own conditions: every call that a layout makes meets them, broken ones are refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serq.kernels.ascend.attention_shape import AttentionShape
from serq.kernels.ascend.fia import paged_causal_call
from serq.kernels.ascend.fia_check import check_fused_attention
from serq.kernels.ascend.gdn import GatedDeltaNetShape
from serq.kernels.ascend.graph_mode import DeviceFamily, GraphMode, GraphOptions
from serq.kernels.ascend.layout import AscendLayoutEngine, AscendLayoutOptions
from serq.kernels.layout import BatchLayout, LayoutEngine
from serq.kernels.operator_call import Argument, OperatorCall, TensorArgument
from serq.kernels.operator_schema import OperatorCallError, check_call
from serq.kernels.sglang.layout import SglangLayoutEngine, SglangLayoutOptions
from serq.kernels.step_batch import BatchRow, StepBatch

SHAPE = AttentionShape(num_heads=24, num_kv_heads=4, head_dim=256, num_blocks=400)
GDN = GatedDeltaNetShape(num_k_heads=16, num_v_heads=48, num_states=64)


@st.composite
def rows(draw: st.DrawFn) -> tuple[BatchRow, ...]:
    kinds = draw(st.lists(st.sampled_from(("decode", "fresh", "chunk")), min_size=1, max_size=30))
    made = []
    for number, kind in enumerate(kinds):
        computed = 0 if kind == "fresh" else draw(st.integers(1, 3000))
        query = 1 if kind == "decode" else draw(st.integers(1, 200))
        prompt = computed if kind == "decode" else computed + query + draw(st.integers(0, 50))
        made.append(BatchRow(str(number), query, computed, prompt, 0, kind == "decode"))
    return tuple(made)


def engines() -> list[LayoutEngine]:
    made: list[LayoutEngine] = [SglangLayoutEngine(SglangLayoutOptions(8192))]
    for device in (DeviceFamily.A2, DeviceFamily.A5):
        for mode in (None, GraphMode.FULL_DECODE_ONLY, GraphMode.PIECEWISE):
            graphs = GraphOptions(32, device=device, mode=mode)
            made.append(AscendLayoutEngine(AscendLayoutOptions(graphs, 8192)))
    return made


def attention(layout: BatchLayout, shape: AttentionShape) -> list[OperatorCall]:
    return [call for call in layout.attention_calls(shape) if "attention" in call.operator]


def new_tokens(call: OperatorCall) -> int:
    ends = call.argument("actual_seq_lengths")
    assert isinstance(ends, tuple)
    return ends[-1]


@settings(max_examples=150, deadline=None)
@given(rows())
def test_layouts_make_calls_that_compute_every_token_once(batch_rows: tuple[BatchRow, ...]) -> None:
    batch = StepBatch.of(batch_rows)
    for engine in engines():
        layout = engine.layout(batch)
        assert sorted(layout.order) == list(range(len(batch_rows)))
        assert layout.num_tokens >= batch.tokens
        calls = attention(layout, SHAPE)
        for call in calls:
            check_call(call)
            check_fused_attention(call)
        total = sum(new_tokens(call) for call in calls)
        assert total == (layout.num_tokens if layout.graph is GraphMode.FULL else batch.tokens)
        for call in layout.gated_delta_net_calls(GDN):
            check_call(call)


@settings(max_examples=50, deadline=None)
@given(rows())
def test_an_int8_cache_is_read_and_written_for_the_real_tokens(batch_rows: tuple[BatchRow, ...]) -> None:
    engine = AscendLayoutEngine(AscendLayoutOptions(GraphOptions(32, mode=GraphMode.PIECEWISE), 8192))
    layout = engine.layout(StepBatch.of(batch_rows))
    for call in layout.attention_calls(replace(SHAPE, int8_cache=True)):
        check_call(call)


GOOD = paged_causal_call((1, 2, 40), (300, 50, 38), SHAPE, 64)


def changed(**arguments: Argument) -> OperatorCall:
    return replace(GOOD, keywords={**GOOD.keywords, **arguments})


def test_the_example_is_good() -> None:
    check_fused_attention(GOOD)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (changed(num_heads=23), "23 heads|23 query heads"),
        (changed(num_key_value_heads=5), "24 query heads for 5"),
        (changed(query=TensorArgument((40, 24, 250), "bfloat16")), "head dimension 250"),
        (changed(query=TensorArgument((40, 24, 256), "float32")), "type float32"),
        (changed(query=None), "must be tensors"),
        (changed(key=TensorArgument((400, 128, 1024), "int8")), "keys and values"),
        (changed(actual_seq_lengths=(1, 2, 39)), "40 tokens, last end 39"),
        (changed(actual_seq_lengths=(2, 1, 40)), "do not rise"),
        (changed(actual_seq_lengths=None), "list of lengths"),
        (changed(actual_seq_lengths_kv=(300, 50)), "3 rows"),
        (changed(actual_seq_lengths_kv=(300, 50, 37)), "KV length 37: 38 new"),
        (changed(actual_seq_lengths_kv=(9000, 50, 38)), "room 8192"),
        (changed(block_table=TensorArgument((2, 64), "int32")), "3 rows, table"),
        (changed(block_table=TensorArgument((3, 64), "float32")), "block table's form"),
        (changed(block_size=7), "block size 7"),
        (changed(atten_mask=None), "2048 x 2048 mask"),
        (changed(atten_mask=TensorArgument((2048, 2048), "float32")), "mask's type"),
        (changed(sparse_mode=99), "sparse mode 99"),
        (changed(key_antiquant_scale=TensorArgument((4, 1, 256), "float32")), "for keys or for values only"),
        (changed(input_layout="XYZ"), "layout 'XYZ'"),
        (changed(block_size=64), "a paged cache"),
    ],
)
def test_calls_that_the_operator_would_accept_and_compute_wrongly(call: OperatorCall, complaint: str) -> None:
    with pytest.raises(OperatorCallError, match=complaint):
        check_fused_attention(call)


def test_unpaged_keys_need_cumulative_lengths() -> None:
    keys = TensorArgument((40, 4, 256), "bfloat16")
    dense = {"block_table": None, "key": keys, "value": keys}
    check_fused_attention(changed(actual_seq_lengths_kv=(1, 2, 40), **dense))
    with pytest.raises(OperatorCallError, match="last end 38"):
        check_fused_attention(changed(actual_seq_lengths_kv=(300, 50, 38), **dense))
