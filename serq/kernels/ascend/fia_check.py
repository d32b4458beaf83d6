"""What the fused attention operator needs and its schema does not say.

The operator's own shape functions check next to nothing: wrong lengths or heads give an output of the right
shape and wrong numbers. Everything here is checked before a call is executed or priced.
"""

from __future__ import annotations

from itertools import pairwise

from serq.kernels.ascend.attention_shape import MASK_SIDE
from serq.kernels.operator_call import Argument, OperatorCall, TensorArgument
from serq.kernels.operator_schema import OperatorCallError

_V1 = {"heads": "num_heads", "query_lens": "actual_seq_lengths", "kv_lens": "actual_seq_lengths_kv"}
_V2 = {"heads": "num_query_heads", "query_lens": "actual_seq_qlen", "kv_lens": "actual_seq_kvlen"}
_LAYOUTS = ("TND", "BNSD")
_COMPUTE_TYPES = ("bfloat16", "float16")
_MASK_TYPES = ("int8", "uint8", "bool")
_MASKED_MODES = (2, 3, 4)
_LARGEST_HEAD = 512
_LARGEST_BLOCK = 512


def check_fused_attention(call: OperatorCall, compute_types: tuple[str, ...] = _COMPUTE_TYPES) -> None:
    """Raises :class:`OperatorCallError` for a fused attention call that would compute nonsense.

    ``compute_types`` are the element types of queries: those of the device, unless a reference computes.
    """
    _FusedCall(call, compute_types).check()


class _FusedCall:
    """One call with the names of its version resolved."""

    def __init__(self, call: OperatorCall, compute_types: tuple[str, ...]) -> None:
        self._call = call
        self._compute_types = compute_types
        self._names = _V2 if call.operator.endswith("_v2") else _V1
        operands = [
            call.positional[place] if place < len(call.positional) else call.argument(name)
            for place, name in enumerate(("query", "key", "value"))
        ]
        self.query, self.key, self.value = (self._tensor(operand) for operand in operands)
        self.heads = self._number(self._names["heads"])
        self.kv_heads = self._number("num_key_value_heads") or self.heads
        self.layout = call.argument("input_layout", "BSH")
        if self.layout not in _LAYOUTS:
            raise self._error(f"layout {self.layout!r}; known are {', '.join(_LAYOUTS)}")
        table = call.argument("block_table")
        self.block_table = table if isinstance(table, TensorArgument) else None

    def check(self) -> None:
        """Everything, operands first."""
        self._check_operands()
        self._check_mask()
        rows = self._check_query_lengths()
        kv_lens = self._lengths(self._names["kv_lens"])
        if self.block_table is None:
            self._check_dense_lengths(rows, kv_lens)
        else:
            self._check_paged_lengths(rows, kv_lens)

    def _check_operands(self) -> None:
        head_dim = self.query.shape[-1]
        self._require(head_dim % 16 == 0 and head_dim <= _LARGEST_HEAD, f"head dimension {head_dim}")
        self._require(self.heads > 0 and self.heads % self.kv_heads == 0, self._groups())
        self._require(self.query.shape[1] == self.heads, f"query {self.query.shape}, {self.heads} heads")
        self._require(self.key == self.value, "keys and values of different shapes or types")
        self._require(self.query.dtype in self._compute_types, f"queries of type {self.query.dtype}")
        scales = [self._call.argument(f"{side}_antiquant_scale") is None for side in ("key", "value")]
        self._require(scales[0] == scales[1], "a scale for keys or for values only")
        quantised = self.key.dtype == "int8"
        self._require(quantised is not scales[0], f"{self.key.dtype} keys, scales {not scales[0]}")
        self._require(quantised or self.key.dtype == self.query.dtype, f"keys of type {self.key.dtype}")

    def _groups(self) -> str:
        return f"{self.heads} query heads for {self.kv_heads} KV heads"

    def _check_mask(self) -> None:
        mode, mask = self._number("sparse_mode"), self._call.argument("atten_mask")
        if mode not in _MASKED_MODES:
            self._require(mode == 0, f"sparse mode {mode}")
            return
        template = isinstance(mask, TensorArgument) and mask.shape == (MASK_SIDE, MASK_SIDE)
        self._require(template, f"sparse mode {mode} without a {MASK_SIDE} x {MASK_SIDE} mask")
        self._require(isinstance(mask, TensorArgument) and mask.dtype in _MASK_TYPES, "the mask's type")

    def _check_query_lengths(self) -> tuple[int, ...]:
        """The number of new tokens of every row."""
        if self.layout != "TND":
            return (self.query.shape[2],) * self.query.shape[0]
        ends = self._lengths(self._names["query_lens"])
        self._require(ends[-1] == self.query.shape[0], f"{self.query.shape[0]} tokens, last end {ends[-1]}")
        rows = tuple(end - start for start, end in pairwise((0, *ends)))
        self._require(all(length > 0 for length in rows), f"query ends {ends} that do not rise")
        return rows

    def _check_dense_lengths(self, rows: tuple[int, ...], kv_ends: tuple[int, ...]) -> None:
        self._require(len(kv_ends) == len(rows), f"{len(rows)} rows, {len(kv_ends)} KV lengths")
        self._require(kv_ends[-1] == self.key.shape[0], f"{self.key.shape[0]} keys, last end {kv_ends[-1]}")
        lengths = [end - start for start, end in pairwise((0, *kv_ends))]
        enough = all(length >= new for length, new in zip(lengths, rows, strict=True))
        self._require(enough, f"KV ends {kv_ends} shorter than the queries")

    def _check_paged_lengths(self, rows: tuple[int, ...], kv_lens: tuple[int, ...]) -> None:
        table = self.block_table
        assert table is not None
        block_size = self._number("block_size")
        self._require(table.dtype == "int32" and len(table.shape) == 2, "the block table's form")
        self._require(table.shape[0] == len(rows) == len(kv_lens), f"{len(rows)} rows, table {table.shape}")
        self._require(block_size % 16 == 0 and 0 < block_size <= _LARGEST_BLOCK, f"block size {block_size}")
        width = self.kv_heads * self.query.shape[-1]
        if len(self.key.shape) == 3:
            self._require(self.key.shape[1:] == (block_size, width), f"a paged cache {self.key.shape}")
        room = table.shape[1] * block_size
        for new, length in zip(rows, kv_lens, strict=True):
            dummy = length == 1
            self._require(dummy or new <= length <= room, f"KV length {length}: {new} new, room {room}")

    # ---- reading arguments ------------------------------------------------------

    def _tensor(self, operand: Argument) -> TensorArgument:
        if not isinstance(operand, TensorArgument):
            raise self._error("query, key and value must be tensors")
        return operand

    def _number(self, name: str) -> int:
        value = self._call.argument(name, 0)
        if not isinstance(value, int):
            raise self._error(f"{name} must be an integer")
        return value

    def _lengths(self, name: str) -> tuple[int, ...]:
        value = self._call.argument(name)
        lengths = value.values if isinstance(value, TensorArgument) else value
        if not isinstance(lengths, tuple) or not lengths:
            raise self._error(f"{name} must be a list of lengths")
        return lengths

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise self._error(what)

    def _error(self, what: str) -> OperatorCallError:
        return OperatorCallError(f"{self._call.operator} would not compute attention: {what}")
