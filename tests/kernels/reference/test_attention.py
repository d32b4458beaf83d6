"""Reference attention against sums written out in float64: paged, packed, split, quantised."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serq.kernels.reference.attention import fused_infer_attention, scatter_kv_cache

torch = pytest.importorskip("torch", reason="needs torch (pip install 'serq[torch]')")

BLOCK = 16
Rows = list[tuple[int, int]]


def rows() -> st.SearchStrategy[Rows]:
    """(new tokens, keys) of every request."""
    row = st.integers(1, 6).flatmap(lambda new: st.tuples(st.just(new), st.integers(new, 50)))
    return st.lists(row, min_size=1, max_size=5)


def by_hand(query: Any, keys: list[Any], values: list[Any], given: Rows, scale: float) -> Any:
    """Softmax over the keys up to a query's own place, one query and head at a time."""
    out = torch.zeros(query.shape, dtype=torch.float64)
    token = 0
    for (new, total), key, value in zip(given, keys, values, strict=True):
        for step in range(new):
            seen = total - new + step + 1
            for head in range(query.shape[1]):
                group = head // (query.shape[1] // key.shape[1])
                weights = [
                    math.exp(scale * float(query[token, head].double() @ key[place, group].double()))
                    for place in range(seen)
                ]
                for place, weight in enumerate(weights):
                    out[token, head] += weight / sum(weights) * value[place, group].double()
            token += 1
    return out


class Step:
    """Random queries and keys of a step, and the forms in which an operator is given them."""

    def __init__(self, given: Rows, seed: int, heads: int = 4, kv_heads: int = 2, dim: int = 16) -> None:
        torch.manual_seed(seed)
        self.rows = given
        self.heads, self.kv_heads, self.dim = heads, kv_heads, dim
        self.query = torch.randn(sum(new for new, _ in given), heads, dim, dtype=torch.float64)
        self.keys = [torch.randn(total, kv_heads, dim, dtype=torch.float64) for _, total in given]
        self.values = [torch.randn(total, kv_heads, dim, dtype=torch.float64) for _, total in given]
        self.ends = [sum(new for new, _ in given[: row + 1]) for row in range(len(given))]
        pages = [-(-total // BLOCK) for _, total in given]
        order = (torch.randperm(sum(pages)) + 1).tolist()
        self.table = torch.zeros(len(given), 4, dtype=torch.int32)
        self.key_cache, self.value_cache = (
            torch.full((sum(pages) + 1, BLOCK, kv_heads, dim), 9.0, dtype=torch.float64) for _ in range(2)
        )
        for row, (_, total) in enumerate(given):
            own = [order.pop() for _ in range(pages[row])]
            self.table[row, : len(own)] = torch.tensor(own)
            slots = torch.tensor([own[place // BLOCK] * BLOCK + place % BLOCK for place in range(total)])
            caches = (self.key_cache, self.value_cache)
            scatter_kv_cache(self.keys[row], self.values[row], *caches, slots, cache_mode="Norm")

    def attend(self, key: Any, value: Any, query: Any = None, **changed: Any) -> Any:
        arguments = {
            "input_layout": "TND",
            "num_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "scale": self.dim**-0.5,
            "sparse_mode": 3,
            "block_size": BLOCK,
            "actual_seq_lengths": self.ends,
            "actual_seq_lengths_kv": [total for _, total in self.rows],
            "block_table": self.table,
        }
        query = self.query if query is None else query
        return fused_infer_attention(query, key, value, **arguments | changed)

    def paged(self, **changed: Any) -> Any:
        return self.attend(self.key_cache.flatten(2), self.value_cache.flatten(2), **changed)

    def packed(self) -> Any:
        totals = [sum(total for _, total in self.rows[: row + 1]) for row in range(len(self.rows))]
        key, value = torch.cat(self.keys), torch.cat(self.values)
        return self.attend(key, value, block_table=None, actual_seq_lengths_kv=totals)


@settings(max_examples=25, deadline=None)
@given(rows(), st.integers(0, 1000))
def test_paged_packed_and_split_are_the_sums_written_out(given_rows: Rows, seed: int) -> None:
    step = Step(given_rows, seed)
    expected = by_hand(step.query, step.keys, step.values, given_rows, step.dim**-0.5)
    torch.testing.assert_close(step.paged(), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(step.packed(), expected, rtol=1e-10, atol=1e-12)
    if len(given_rows) < 2:
        return
    half, tokens = len(given_rows) // 2, step.ends[len(given_rows) // 2 - 1]
    totals = [total for _, total in given_rows]
    first = step.paged(
        query=step.query[:tokens], actual_seq_lengths=step.ends[:half],
        actual_seq_lengths_kv=totals[:half], block_table=step.table[:half],
    )  # fmt: skip
    second = step.paged(
        query=step.query[tokens:], actual_seq_lengths=[end - tokens for end in step.ends[half:]],
        actual_seq_lengths_kv=totals[half:], block_table=step.table[half:],
    )  # fmt: skip
    torch.testing.assert_close(torch.cat((first, second)), expected, rtol=1e-10, atol=1e-12)


def test_a_window_hides_what_lies_before_it() -> None:
    """One query over 40 keys with a window of 5 sees the last 6: itself and five before."""
    step = Step([(1, 40)], 3)
    windowed = step.paged(sparse_mode=4, pre_tokens=5, next_tokens=0)
    keys, values = [step.keys[0][34:]], [step.values[0][34:]]
    expected = by_hand(step.query, keys, values, [(1, 6)], step.dim**-0.5)
    torch.testing.assert_close(windowed, expected, rtol=1e-10, atol=1e-12)


def test_int8_keys_are_scaled_by_channel() -> None:
    """BNSD queries over an NZ cache: the same as over the dequantised keys."""
    torch.manual_seed(1)
    blocks, kv_heads, dim = 3, 2, 64
    key, value = (torch.randint(-127, 128, (20, kv_heads, dim), dtype=torch.int8) for _ in range(2))
    cache = [torch.zeros(blocks, kv_heads, dim // 32, BLOCK, 32, dtype=torch.int8) for _ in range(2)]
    slots = torch.tensor([*range(2 * BLOCK, 3 * BLOCK), *range(BLOCK, BLOCK + 4)])
    scatter_kv_cache(key, value, *cache, slots)
    scales = [torch.rand(kv_heads, 1, dim, dtype=torch.float64) / 50 for _ in range(2)]
    query = torch.randn(1, 4, 1, dim, dtype=torch.float64)
    found = fused_infer_attention(
        query, *cache, key_antiquant_scale=scales[0], value_antiquant_scale=scales[1],
        block_table=torch.tensor([[2, 1]]), actual_seq_lengths_kv=[20], num_heads=4,
        num_key_value_heads=kv_heads, input_layout="BNSD", scale=0.1, block_size=BLOCK, sparse_mode=0,
    )  # fmt: skip
    keys, values = (
        [part.double() * scale.view(1, kv_heads, dim)]
        for part, scale in zip((key, value), scales, strict=True)
    )
    expected = by_hand(query[:, :, 0], keys, values, [(1, 20)], 0.1)
    torch.testing.assert_close(found[:, :, 0], expected, rtol=1e-10, atol=1e-12)


def test_bfloat16_stays_within_its_rounding() -> None:
    step = Step([(3, 30), (1, 17)], 5)
    expected = by_hand(step.query, step.keys, step.values, step.rows, step.dim**-0.5)
    low = [part.bfloat16() for part in (step.key_cache.flatten(2), step.value_cache.flatten(2))]
    found = step.attend(*low, query=step.query.bfloat16()).double()
    assert (found - expected).abs().max() < 0.03
