"""Chunked local attention: a token attends to its own chunk only (S-076, S-091)."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.vllm.block_pool import KVCacheBlock
from serq.runtime.vllm.groups.base import Found, LookupRange, SingleTypeKVCacheManager
from serq.runtime.vllm.kv_cache_spec import ChunkedLocalAttentionSpec


class ChunkedLocalAttentionManager(SingleTypeKVCacheManager[ChunkedLocalAttentionSpec]):
    """Block tables of layers whose attention does not cross chunks."""

    def find_longest_cache_hit(
        self, block_hashes: Sequence[int], group_ids: Sequence[int], within: LookupRange
    ) -> Found:
        """Everything left of the chunk of the limit counts as a hit (null), then blocks up to a miss."""
        chunk = self.spec.attention_chunk_size
        num_blocks = within.max_length // chunk * chunk // self.block_size
        found: list[list[KVCacheBlock]] = [[self.pool.null_block] * num_blocks for _ in group_ids]
        while (num_blocks + 1) * self.block_size <= within.max_length:
            cached = self._cached_at(block_hashes, (num_blocks + 1) * self.block_size, group_ids)
            if cached is None:
                break
            for blocks, block in zip(found, cached, strict=True):
                blocks.append(block)
            num_blocks += 1
        return found, num_blocks * self.block_size

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Everything before the chunk of the next token (S-091)."""
        return num_computed_tokens // self.spec.attention_chunk_size * self.spec.attention_chunk_size
