"""The fused infer attention (FIA) calls of one attention layer (V-080 to V-085)."""

from __future__ import annotations

from collections.abc import Sequence

from serq.kernels.ascend.attention_shape import KERNEL_BLOCK_SIZE, MASK_SIDE, AttentionShape
from serq.kernels.ascend.attention_state import AttentionState
from serq.kernels.ascend.metadata import AttentionMetadata
from serq.kernels.operator_call import Argument, OperatorCall, TensorArgument

PACKAGE = "torch_npu"
FUSED = "npu_fused_infer_attention_score"
UNLIMITED = 2147483647
MASK = TensorArgument((MASK_SIDE, MASK_SIDE), "int8")


def attention_calls(
    metadata: AttentionMetadata,
    shape: AttentionShape,
    *,
    split_mixed: bool = False,
    paged_decode: bool = False,
) -> tuple[OperatorCall, ...]:
    """The calls of one layer for one step: the cache write, then the attention.

    ``split_mixed``: decodes and prefills of a plain mixed batch are two calls, as on Ascend 950 (V-085).
    ``paged_decode``: a decode-only batch without a window goes through the paged attention operator (V-084).
    """
    return (cache_write(metadata, shape), *_attention(metadata, shape, split_mixed, paged_decode))


def uses_paged_attention(
    num_tokens: int,
    head_dim: int,
    *,
    full_decode_only: bool,
    paged_sizes: Sequence[int] = (),
    speculative: bool = False,
    is_a5: bool = False,
) -> bool:
    """Whether a decode-only batch is listed for the paged attention operator (V-084)."""
    if head_dim == 512:
        return True
    return full_decode_only and not speculative and not is_a5 and num_tokens in paged_sizes


def cache_write(metadata: AttentionMetadata, shape: AttentionShape) -> OperatorCall:
    """The write of the step's keys and values into their slots (V-080)."""
    new = TensorArgument(shape.key(metadata.num_actual_tokens), shape.dtype)
    cache = TensorArgument(shape.cache, shape.dtype)
    return OperatorCall(
        PACKAGE,
        "npu_scatter_pa_kv_cache",
        keywords={
            "key": new,
            "value": new,
            "key_cache": cache,
            "value_cache": cache,
            "slot_mapping": metadata.slots,
            "cache_mode": "Norm",
        },
    )


def _attention(
    metadata: AttentionMetadata, shape: AttentionShape, split_mixed: bool, paged_decode: bool
) -> tuple[OperatorCall, ...]:
    decode_only = metadata.state is AttentionState.DECODE_ONLY
    if decode_only and paged_decode and shape.sliding_window is None:
        return (_paged_decode(metadata, shape),)
    if shape.sinks:
        return (_fused_with_sinks(metadata, shape),)
    plain = metadata.causal and shape.sliding_window is None
    mixed = metadata.num_decodes > 0 and metadata.num_prefills > 0
    if split_mixed and plain and mixed and metadata.state is AttentionState.CHUNKED_PREFILL:
        return _split(metadata, shape)
    return (_fused(metadata, shape),)


def _fused(metadata: AttentionMetadata, shape: AttentionShape) -> OperatorCall:
    """One call over every row (V-081 to V-083)."""
    keys, block_table, kv_lens = _keys(metadata, shape)
    arguments = _common(shape, metadata.query_ends[-1], keys, block_table)
    arguments |= {"actual_seq_lengths": metadata.query_ends, "actual_seq_lengths_kv": kv_lens}
    return OperatorCall(PACKAGE, FUSED, keywords=arguments | _masking(metadata, shape))


def _split(metadata: AttentionMetadata, shape: AttentionShape) -> tuple[OperatorCall, OperatorCall]:
    """Decodes first, then prefills with their boundaries counted from their own first token (V-085)."""
    decodes, tokens = metadata.num_decodes, metadata.num_decode_tokens
    spans = (
        (metadata.query_ends[:decodes], metadata.seq_lens[:decodes]),
        (tuple(end - tokens for end in metadata.query_ends[decodes:]), metadata.seq_lens[decodes:]),
    )
    first, second = (
        paged_causal_call(query_ends, kv_lens, shape, metadata.block_table_width)
        for query_ends, kv_lens in spans
    )
    return first, second


def paged_causal_call(
    query_ends: tuple[int, ...], kv_lens: tuple[int, ...], shape: AttentionShape, block_table_width: int
) -> OperatorCall:
    """One causal call over rows whose keys lie in the paged cache."""
    keys = TensorArgument(shape.paged_view, shape.dtype)
    block_table = TensorArgument((len(query_ends), block_table_width), "int32")
    arguments = _common(shape, query_ends[-1], keys, block_table)
    arguments |= {"actual_seq_lengths": query_ends, "actual_seq_lengths_kv": kv_lens}
    return OperatorCall(PACKAGE, FUSED, keywords=arguments | {"atten_mask": MASK, "sparse_mode": 3})


def _common(
    shape: AttentionShape, tokens: int, keys: TensorArgument, block_table: TensorArgument | None
) -> dict[str, Argument]:
    return {
        "query": TensorArgument(shape.query(tokens), shape.dtype),
        "key": keys,
        "value": keys,
        "block_table": block_table,
        "input_layout": "TND",
        "block_size": KERNEL_BLOCK_SIZE,
        "num_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "scale": shape.scale,
    }


def _keys(
    metadata: AttentionMetadata, shape: AttentionShape
) -> tuple[TensorArgument, TensorArgument | None, tuple[int, ...]]:
    """Keys, block table and KV lengths: cumulative and unpaged for fresh prompts, else per row (V-082)."""
    if metadata.state is AttentionState.PREFILL_NO_CACHE:
        return TensorArgument(shape.key(metadata.query_ends[-1]), shape.dtype), None, metadata.query_ends
    block_table = TensorArgument(metadata.block_table_shape, "int32")
    return TensorArgument(shape.paged_view, shape.dtype), block_table, metadata.seq_lens


def _masking(metadata: AttentionMetadata, shape: AttentionShape) -> dict[str, Argument]:
    if not metadata.causal:
        return {"sparse_mode": 0}
    if shape.sliding_window is not None:
        window = shape.sliding_window
        return {"atten_mask": MASK, "sparse_mode": 4, "pre_tokens": window, "next_tokens": 0}
    return {"atten_mask": MASK, "sparse_mode": 3}


def _fused_with_sinks(metadata: AttentionMetadata, shape: AttentionShape) -> OperatorCall:
    """The second version of the operator, which takes learnable sinks (V-083)."""
    keys, block_table, kv_lens = _keys(metadata, shape)
    windowed = shape.sliding_window is not None
    query_ends: Argument = metadata.query_ends
    if metadata.state is AttentionState.DECODE_ONLY:
        query_ends = TensorArgument.of_lengths(tuple(range(1, metadata.num_reqs + 1)), "int64")
    return OperatorCall(
        PACKAGE,
        f"{FUSED}_v2",
        (TensorArgument(shape.query(metadata.query_ends[-1]), shape.dtype), keys, keys),
        {
            "num_query_heads": shape.num_heads,
            "num_key_value_heads": shape.num_kv_heads,
            "input_layout": "TND",
            "pre_tokens": shape.sliding_window if windowed else UNLIMITED,
            "next_tokens": 0,
            "atten_mask": MASK,
            "sparse_mode": 4 if windowed else 3,
            "softmax_scale": shape.scale,
            "block_table": block_table,
            "block_size": KERNEL_BLOCK_SIZE,
            "actual_seq_qlen": query_ends,
            "actual_seq_kvlen": kv_lens,
            "learnable_sink": TensorArgument((shape.num_heads,), "float32"),
        },
    )


def _paged_decode(metadata: AttentionMetadata, shape: AttentionShape) -> OperatorCall:
    """The paged attention operator, one query token a row (V-084)."""
    query = TensorArgument(shape.query(metadata.num_actual_tokens), shape.dtype)
    cache = TensorArgument(shape.cache, shape.dtype)
    return OperatorCall(
        PACKAGE,
        "_npu_paged_attention",
        keywords={
            "query": query,
            "key_cache": cache,
            "value_cache": cache,
            "num_kv_heads": shape.num_kv_heads,
            "num_heads": shape.num_heads,
            "scale_value": shape.scale,
            "block_table": TensorArgument(metadata.block_table_shape, "int32"),
            "context_lens": TensorArgument.of_lengths(metadata.seq_lens),
            "out": query,
        },
    )
