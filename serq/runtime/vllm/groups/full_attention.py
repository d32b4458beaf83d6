"""Full attention: blocks are held until the end, a hit is a run from the first block on (S-073)."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.vllm.block_pool import KVCacheBlock
from serq.runtime.vllm.groups.base import Found, LookupRange, SingleTypeKVCacheManager
from serq.runtime.vllm.kv_cache_spec import FullAttentionSpec, ceil_div
from serq.runtime.vllm.request import Request


class FullAttentionManager(SingleTypeKVCacheManager[FullAttentionSpec]):
    """Block tables of layers that attend to everything."""

    is_full_attention = True
    supports_fine_grained_hits = True

    def find_longest_cache_hit(
        self, block_hashes: Sequence[int], group_ids: Sequence[int], within: LookupRange
    ) -> Found:
        """Whole blocks from the left up to the first miss, then a partial tail where that is possible."""
        found, length = self._leading_blocks(block_hashes, group_ids, within.max_length)
        if within.alignment < self.block_size:
            length = self._extend_by_partial_tail(block_hashes, group_ids, within, found, length)
        if within.drop_eagle_block and length:
            length -= min(within.alignment, self.block_size)
        length -= length % within.alignment
        for blocks in found:
            del blocks[ceil_div(length, self.block_size) :]
        return found, length

    def _leading_blocks(self, hashes: Sequence[int], group_ids: Sequence[int], max_length: int) -> Found:
        found: list[list[KVCacheBlock]] = [[] for _ in group_ids]
        limit = min(max_length, len(hashes) * self.hash_block_size)
        end = self.block_size
        while end <= limit and (cached := self._cached_at(hashes, end, group_ids)) is not None:
            for blocks, block in zip(found, cached, strict=True):
                blocks.append(block)
            end += self.block_size
        return found, end - self.block_size

    def _extend_by_partial_tail(
        self,
        hashes: Sequence[int],
        group_ids: Sequence[int],
        within: LookupRange,
        found: list[list[KVCacheBlock]],
        length: int,
    ) -> int:
        """Add the longest published prefix that ends inside the block after ``length`` (S-127)."""
        unit = within.alignment
        limit = min(length + self.block_size - unit, within.max_length, len(hashes) * unit)
        for end in range(limit // unit * unit, length, -unit):
            cached = self._cached_at(hashes, end, group_ids)
            if cached is not None:
                for blocks, block in zip(found, cached, strict=True):
                    blocks.append(block)
                return end
        return length

    def cache_blocks(self, request: Request, num_tokens: int, retention_interval: int | None) -> None:
        """Whole blocks, and the block in which the prompt's last hash boundary lies (S-128)."""
        super().cache_blocks(request, num_tokens, retention_interval)
        if self.block_size == self.hash_block_size:
            return
        boundary = self.partial_tail(request)
        table = self.block_tables[request.request_id]
        if 0 < boundary <= num_tokens and boundary // self.block_size < len(table):
            key = request.block_hashes[boundary // self.hash_block_size - 1]
            self.pool.publish(table[boundary // self.block_size], key, self.group_id, boundary)

    def num_common_prefix_blocks(self, request_id: str) -> int:
        """Leading blocks of ``request_id`` referenced as often as there are requests here (S-095)."""
        everybody = len(self.block_tables)
        common = 0
        for block in self.block_tables.get(request_id, ()):
            if block.ref_cnt != everybody:
                break
            common += 1
        return common
