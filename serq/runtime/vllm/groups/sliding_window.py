"""Sliding window attention: only the blocks of the last window are held and looked for (S-075, S-091)."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.vllm.block_pool import KVCacheBlock
from serq.runtime.vllm.groups.base import Found, LookupRange, SingleTypeKVCacheManager
from serq.runtime.vllm.kv_cache_spec import SlidingWindowSpec


class SlidingWindowManager(SingleTypeKVCacheManager[SlidingWindowSpec]):
    """Block tables of layers that attend to the last ``sliding_window`` tokens."""

    def find_longest_cache_hit(
        self, block_hashes: Sequence[int], group_ids: Sequence[int], within: LookupRange
    ) -> Found:
        """The last run of cached blocks that covers a window, ending on the alignment; null before it.

        Without such a run the leading cached blocks count: their window reaches back to the beginning.
        """
        eagle = within.drop_eagle_block
        needed = self.spec.blocks_for_hit(eagle)
        found: list[list[KVCacheBlock]] = [
            [self.pool.null_block] * (within.max_length // self.block_size) for _ in group_ids
        ]
        run = 0
        num_blocks = 0
        for index in range(len(found[0]) - 1, -1, -1):
            cached = self._cached_at(block_hashes, (index + 1) * self.block_size, group_ids)
            if cached is None:
                run = 0
                continue
            if run == 0 and (index + (not eagle)) * self.block_size % within.alignment:
                continue
            for blocks, block in zip(found, cached, strict=True):
                blocks[index] = block
            run += 1
            if run >= needed:
                num_blocks = index + run
                break
        else:
            num_blocks = self._aligned(run, within.alignment)
        if eagle and num_blocks:
            num_blocks = self._aligned(num_blocks - 1, within.alignment)
        for blocks in found:
            del blocks[num_blocks:]
        return found, num_blocks * self.block_size

    def _aligned(self, num_blocks: int, alignment: int) -> int:
        """The most blocks, up to ``num_blocks``, that end on the alignment."""
        while num_blocks * self.block_size % alignment:
            num_blocks -= 1
        return num_blocks

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """All but the window of the next token (S-091)."""
        return max(0, num_computed_tokens - self.spec.sliding_window + 1)

    def reachable_blocks(
        self, start: int, end: int, retention_interval: int | None, boundaries: Sequence[int]
    ) -> Sequence[int] | None:
        """The last blocks of every segment and those before each boundary (S-082)."""
        alignment = self.scheduler_block_size
        needed = self.spec.blocks_for_hit(self.use_eagle)
        shift = int(self.use_eagle)
        kept: set[int] = set()
        segment = alignment if retention_interval is None else retention_interval
        if segment:
            per_segment = segment // self.block_size
            if needed >= per_segment:
                return None
            first_kept = per_segment - needed
            kept = {i for i in range(max(start, shift), end) if (i - shift) % per_segment >= first_kept}
        if retention_interval is not None:
            for boundary in boundaries:
                last = boundary // alignment * alignment // self.block_size + shift
                kept.update(range(max(start, last - needed), min(end, last)))
        return sorted(kept)
