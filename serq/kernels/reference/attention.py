"""Attention over paged or packed keys, as the fused infer attention operator (FIA) takes its arguments.

Grouped queries, causal from the bottom right: the last query of a request sees all of its keys. Rows of equal
query length are computed together, so a call costs what its rows cost however they are ordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from serq.kernels.operator_schema import OperatorCallError

if TYPE_CHECKING:
    import torch

_CAUSAL, _BAND = 3, 4


def fused_infer_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **arguments: Any
) -> torch.Tensor:
    """``npu_fused_infer_attention_score`` with the arguments that the layouts pass; shape of ``query``.

    Layouts ``TND`` and ``BNSD``; paged keys ``(blocks, block, Nkv*D)`` or int8 ``(blocks, Nkv, D/32, block,
    32)`` with scales per channel; packed keys with cumulative lengths. Sparse modes 0, 3 and 4. Raises
    OperatorCallError for anything else.
    """
    import torch

    rows, lengths = _queries(query, arguments)
    heads = int(arguments["num_key_value_heads"]) or int(arguments["num_heads"])
    keys = _Keys(key, value, arguments, heads, lengths)
    tnd = arguments["input_layout"] == "TND"
    source = query if tnd else query.transpose(1, 2).flatten(0, 1)
    packed = torch.empty_like(source)
    groups: dict[int, list[int]] = {}
    for row, (start, end) in enumerate(pairwise((0, *rows))):
        groups.setdefault(end - start, []).append(row)
    starts = (0, *rows)
    for count, members in groups.items():
        places = torch.tensor([starts[row] for row in members], device=query.device)
        places = (places[:, None] + torch.arange(count, device=query.device)).flatten()
        queries = source[places].view(len(members), count, *_tail(query))
        packed[places] = _attend(queries, keys, members, arguments).flatten(0, 1)
    if tnd:
        return packed
    return packed.view(query.shape[0], query.shape[2], *_tail(query)).transpose(1, 2).contiguous()


def _tail(query: torch.Tensor) -> tuple[int, int]:
    """Heads and head dimension, in either layout."""
    return (query.shape[1], query.shape[-1])


def _queries(query: torch.Tensor, arguments: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cumulative ends of the query rows, and the number of keys of each row."""
    layout = arguments["input_layout"]
    if layout == "TND":
        ends = _integers(arguments["actual_seq_lengths"])
    elif layout == "BNSD":
        ends = tuple(query.shape[2] * (row + 1) for row in range(query.shape[0]))
    else:
        raise OperatorCallError(f"the reference attention knows TND and BNSD, not {layout}")
    kv = _integers(arguments["actual_seq_lengths_kv"])
    if arguments.get("block_table") is None:
        kv = tuple(end - start for start, end in pairwise((0, *kv)))
    return ends, kv


def _integers(values: Any) -> tuple[int, ...]:
    return tuple(values.tolist() if hasattr(values, "tolist") else values)


class _Keys:
    """Keys and values of a call; ``gathered`` reads those of some rows, padded to the longest of them."""

    def __init__(
        self,
        key: torch.Tensor,
        value: torch.Tensor,
        arguments: Mapping[str, Any],
        heads: int,
        lengths: tuple[int, ...],
    ) -> None:
        self._key, self._value, self._heads = key, value, heads
        self._table = arguments.get("block_table")
        self._block = int(arguments.get("block_size", 0))
        self._scales = (arguments.get("key_antiquant_scale"), arguments.get("value_antiquant_scale"))
        self.lengths = lengths
        self._starts = [0]
        for length in lengths:
            self._starts.append(self._starts[-1] + length)

    def gathered(self, rows: Sequence[int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Both as (rows, keys, heads, dimension)."""
        longest = max(self.lengths[row] for row in rows)
        if self._table is None:
            return self._packed(self._key, rows, longest), self._packed(self._value, rows, longest)
        pages = self._table[list(rows), : -(-longest // self._block)].long()
        first, second = (
            self._paged(store, pages, longest, scale, dtype)
            for store, scale in zip((self._key, self._value), self._scales, strict=True)
        )
        return first, second

    def _packed(self, store: torch.Tensor, rows: Sequence[int], longest: int) -> torch.Tensor:
        import torch

        starts = torch.tensor([self._starts[row] for row in rows], device=store.device)
        places = starts[:, None] + torch.arange(longest, device=store.device)
        return store[places.clamp(max=store.shape[0] - 1)]

    def _paged(
        self,
        store: torch.Tensor,
        pages: torch.Tensor,
        longest: int,
        scale: torch.Tensor | None,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        taken = store[pages]
        if store.dim() == 5:  # (rows, pages, heads, columns, block, 32)
            taken = taken.permute(0, 1, 4, 2, 3, 5).flatten(4, 5)
        else:
            taken = taken.view(*taken.shape[:3], self._heads, -1)
        taken = taken.flatten(1, 2)[:, :longest]
        if scale is None:
            return taken
        return taken.to(dtype) * scale.view(1, 1, self._heads, -1).to(dtype)


def _attend(
    queries: torch.Tensor, keys: _Keys, rows: Sequence[int], arguments: Mapping[str, Any]
) -> torch.Tensor:
    """Attention of rows with equally many queries; (rows, queries, heads, dimension)."""
    import torch

    key, value = keys.gathered(rows, queries.dtype)
    mask = _visible(queries.shape[1], [keys.lengths[row] for row in rows], arguments, queries.device)
    out = torch.nn.functional.scaled_dot_product_attention(
        queries.transpose(1, 2),
        key.to(queries.dtype).transpose(1, 2),
        value.to(queries.dtype).transpose(1, 2),
        attn_mask=mask[:, None],
        scale=float(arguments["scale"]),
        enable_gqa=True,
    )
    return out.transpose(1, 2)


def _visible(
    count: int, lengths: Sequence[int], arguments: Mapping[str, Any], device: torch.device
) -> torch.Tensor:
    """Which keys a query sees: (rows, queries, keys)."""
    import torch

    mode = int(arguments.get("sparse_mode", 0))
    ends = torch.tensor(lengths, device=device)[:, None, None]
    keys = torch.arange(max(lengths), device=device)[None, None, :]
    there = keys < ends
    if mode == 0:
        return there.expand(-1, count, -1)
    own = ends - count + torch.arange(count, device=device)[None, :, None]
    if mode == _CAUSAL:
        return there & (keys <= own)
    if mode == _BAND:
        before, after = int(arguments["pre_tokens"]), int(arguments["next_tokens"])
        return there & (keys >= own - before) & (keys <= own + after)
    raise OperatorCallError(f"the reference attention knows sparse modes 0, 3 and 4, not {mode}")


def scatter_kv_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    cache_mode: str = "PA_NZ",
) -> None:
    """``npu_scatter_pa_kv_cache``: writes the new keys and values (tokens, Nkv, D) into their slots."""
    slots = slot_mapping.long()
    for new, cache in ((key, key_cache), (value, value_cache)):
        if cache_mode == "Norm":
            cache.view(-1, *new.shape[1:])[slots] = new
        else:  # (blocks, heads, columns, block, width)
            block, width = cache.shape[3], cache.shape[4]
            parts = new.view(new.shape[0], new.shape[1], -1, width)
            cache[slots // block, :, :, slots % block] = parts
