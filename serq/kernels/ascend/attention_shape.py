"""What one attention layer of one rank looks like to the operators."""

from __future__ import annotations

from dataclasses import dataclass

KERNEL_BLOCK_SIZE = 128
MASK_SIDE = 2048


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Heads and cache of an attention layer on one tensor-parallel rank (V-079).

    ``num_blocks`` blocks of ``KERNEL_BLOCK_SIZE`` tokens hold the KV cache; ``sliding_window`` in tokens;
    ``sinks``: the layer has learnable sinks; ``int8_cache``: keys and values are kept in 8 bits. ``dtype`` is
    the element type of queries and of a cache that is not quantised.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_blocks: int
    sliding_window: int | None = None
    sinks: bool = False
    int8_cache: bool = False
    dtype: str = "bfloat16"

    @property
    def scale(self) -> float:
        """The softmax scale."""
        return float(self.head_dim**-0.5)

    def query(self, tokens: int) -> tuple[int, int, int]:
        """The shape of ``tokens`` packed queries, layout TND."""
        return (tokens, self.num_heads, self.head_dim)

    def key(self, tokens: int) -> tuple[int, int, int]:
        """The shape of ``tokens`` packed keys or values, layout TND."""
        return (tokens, self.num_kv_heads, self.head_dim)

    @property
    def cache(self) -> tuple[int, int, int, int]:
        """The shape of the key cache, and of the value cache."""
        return (self.num_blocks, KERNEL_BLOCK_SIZE, self.num_kv_heads, self.head_dim)

    @property
    def paged_view(self) -> tuple[int, int, int]:
        """The cache as the fused operator reads it: heads and dimensions of a token in one row."""
        return (self.num_blocks, KERNEL_BLOCK_SIZE, self.num_kv_heads * self.head_dim)
