"""The kinds of KV cache a group of layers can have, as the scheduler sees them: block size and reach."""

from __future__ import annotations

from typing import Literal

import msgspec

MambaMode = Literal["none", "align", "all"]


def ceil_div(tokens: int, size: int) -> int:
    """Integer ceiling of ``tokens / size``."""
    return -(-tokens // size)


class FullAttentionSpec(msgspec.Struct, frozen=True):
    """Every token attends to all before it: blocks stay until the request ends."""

    block_size: int

    def admission_cap(self, max_in_flight_tokens: int, max_model_len: int) -> int | None:
        """Most blocks one request can hold at once (S-089); None: no bound below its length."""
        return None


class SlidingWindowSpec(msgspec.Struct, frozen=True):
    """A token attends to the last ``sliding_window`` tokens, itself included."""

    block_size: int
    sliding_window: int

    def admission_cap(self, max_in_flight_tokens: int, max_model_len: int) -> int | None:
        """The window, what is in flight, and one block because a window may begin inside one (S-089)."""
        tokens = min(self.sliding_window - 1 + max_in_flight_tokens, max_model_len)
        return ceil_div(tokens, self.block_size) + 1

    def blocks_for_hit(self, use_eagle: bool) -> int:
        """Consecutive cached blocks that make a hit (S-075); one more where eagle drops the last."""
        return ceil_div(self.sliding_window - 1, self.block_size) + use_eagle


class ChunkedLocalAttentionSpec(msgspec.Struct, frozen=True):
    """A token attends to the tokens of its own chunk of ``attention_chunk_size``."""

    block_size: int
    attention_chunk_size: int

    def admission_cap(self, max_in_flight_tokens: int, max_model_len: int) -> int | None:
        """One chunk and what is in flight (S-089)."""
        tokens = min(self.attention_chunk_size + max_in_flight_tokens, max_model_len)
        return ceil_div(tokens, self.block_size)


class MambaSpec(msgspec.Struct, frozen=True):
    """A recurrent state instead of keys and values; a block holds one state (S-111, S-112)."""

    block_size: int
    mode: MambaMode
    num_speculative_blocks: int = 0

    def admission_cap(self, max_in_flight_tokens: int, max_model_len: int) -> int | None:
        """No cap (S-089)."""
        return None


KVCacheSpec = FullAttentionSpec | SlidingWindowSpec | ChunkedLocalAttentionSpec | MambaSpec


class KVCacheGroup(msgspec.Struct, frozen=True):
    """Layers that share block tables. ``eagle`` marks the group of the draft layers (S-074)."""

    spec: KVCacheSpec
    eagle: bool = False
