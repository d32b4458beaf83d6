"""The attention calls of a layer whose KV cache is INT8 ("C8", V-087, V-088)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from serq.kernels.ascend.attention_shape import KERNEL_BLOCK_SIZE, AttentionShape
from serq.kernels.ascend.attention_state import AttentionState
from serq.kernels.ascend.fia import FUSED, MASK, PACKAGE
from serq.kernels.ascend.metadata import AttentionMetadata
from serq.kernels.operator_call import Argument, OperatorCall, TensorArgument

NZ_COLUMNS = 32


@dataclass(frozen=True, slots=True)
class Int8Cache:
    """The quantised cache of a layer: keys and values scaled per channel, in the blocked NZ layout.

    ``scale_dtype`` is the element type of the scales, hence of dequantised keys and values.
    """

    shape: AttentionShape
    scale_dtype: str = "float32"

    @property
    def blocks(self) -> TensorArgument:
        """The key cache, and the value cache."""
        shape = self.shape
        columns = shape.head_dim // NZ_COLUMNS
        view = (shape.num_blocks, shape.num_kv_heads, columns, KERNEL_BLOCK_SIZE, NZ_COLUMNS)
        return TensorArgument(view, "int8")

    @property
    def scale(self) -> TensorArgument:
        """The scales of the keys, and of the values."""
        return TensorArgument((self.shape.num_kv_heads, 1, self.shape.head_dim), self.scale_dtype)

    def dequantised(self, tokens: int) -> TensorArgument:
        """Dense keys (or values) of ``tokens`` tokens gathered out of the cache."""
        return TensorArgument(self.shape.key(tokens), self.scale_dtype)


def int8_attention_calls(metadata: AttentionMetadata, cache: Int8Cache) -> tuple[OperatorCall, ...]:
    """The calls of one layer for one step: the quantised cache write, then the attention (V-087).

    Decode rows read the quantised cache directly, one query token a row (V-088). Prefill rows never do: they
    attend over the new keys when every one of them starts at 0, else the whole cached context of all of them
    is gathered and dequantised first.
    """
    return (_cache_write(metadata, cache), *_attention(metadata, cache))


def _cache_write(metadata: AttentionMetadata, cache: Int8Cache) -> OperatorCall:
    new = TensorArgument(cache.shape.key(metadata.num_actual_tokens), "int8")
    return OperatorCall(
        PACKAGE,
        "npu_scatter_pa_kv_cache",
        keywords={
            "key": new,
            "value": new,
            "key_cache": cache.blocks,
            "value_cache": cache.blocks,
            "slot_mapping": metadata.slots,
        },
    )


def _attention(metadata: AttentionMetadata, cache: Int8Cache) -> tuple[OperatorCall, ...]:
    state, rows = metadata.state, metadata.num_reqs
    if state is AttentionState.DECODE_ONLY:
        return (_decode(metadata, cache, rows),)
    if state is AttentionState.PREFILL_NO_CACHE:
        return (_prefill_new(metadata.query_ends, cache),)
    if state is not AttentionState.CHUNKED_PREFILL:
        return (_prefill_cached(metadata.query_ends, metadata.seq_lens, cache),)
    calls = []
    if metadata.num_decodes:
        calls.append(_decode(metadata, cache, metadata.num_decodes))
    if metadata.num_prefills:
        calls.append(_chunked_prefill(metadata, cache))
    return tuple(calls)


def _chunked_prefill(metadata: AttentionMetadata, cache: Int8Cache) -> OperatorCall:
    first = metadata.num_decodes
    query_ends = tuple(end - metadata.num_decode_tokens for end in metadata.query_ends[first:])
    seq_lens = metadata.seq_lens[first:]
    if tuple(accumulate(seq_lens)) == query_ends:
        return _prefill_new(query_ends, cache)
    return _prefill_cached(query_ends, seq_lens, cache)


def _decode(metadata: AttentionMetadata, cache: Int8Cache, rows: int) -> OperatorCall:
    shape = cache.shape
    return OperatorCall(
        PACKAGE,
        FUSED,
        (
            TensorArgument((rows, shape.num_heads, 1, shape.head_dim), shape.dtype),
            cache.blocks,
            cache.blocks,
        ),
        {
            "key_antiquant_scale": cache.scale,
            "value_antiquant_scale": cache.scale,
            "block_table": TensorArgument((rows, metadata.block_table_width), "int32"),
            "actual_seq_lengths_kv": metadata.seq_lens[:rows],
            "num_heads": shape.num_heads,
            "num_key_value_heads": shape.num_kv_heads,
            "input_layout": "BNSD",
            "scale": shape.scale,
            "block_size": KERNEL_BLOCK_SIZE,
            "antiquant_mode": 0,
            "key_antiquant_mode": 0,
            "value_antiquant_mode": 0,
            "inner_precise": 1,
            "sparse_mode": 0,
        },
    )


def _prefill_new(query_ends: tuple[int, ...], cache: Int8Cache) -> OperatorCall:
    keys = TensorArgument(cache.shape.key(query_ends[-1]), cache.shape.dtype)
    return _dense(query_ends, keys, query_ends, cache)


def _prefill_cached(query_ends: tuple[int, ...], seq_lens: tuple[int, ...], cache: Int8Cache) -> OperatorCall:
    kv_ends = tuple(accumulate(seq_lens))
    kv_lengths = TensorArgument.of_lengths(kv_ends, "int64")
    return _dense(query_ends, cache.dequantised(kv_ends[-1]), kv_lengths, cache)


def _dense(
    query_ends: tuple[int, ...], keys: TensorArgument, kv_lengths: Argument, cache: Int8Cache
) -> OperatorCall:
    """A causal call over unpaged keys; both length lists are cumulative."""
    shape = cache.shape
    return OperatorCall(
        PACKAGE,
        FUSED,
        keywords={
            "query": TensorArgument(shape.query(query_ends[-1]), shape.dtype),
            "key": keys,
            "value": keys,
            "atten_mask": MASK,
            "block_table": None,
            "input_layout": "TND",
            "block_size": KERNEL_BLOCK_SIZE,
            "actual_seq_lengths": query_ends,
            "actual_seq_lengths_kv": kv_lengths,
            "num_key_value_heads": shape.num_kv_heads,
            "num_heads": shape.num_heads,
            "scale": shape.scale,
            "sparse_mode": 3,
        },
    )
