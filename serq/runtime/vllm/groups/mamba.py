"""Recurrent state, modes "none" and "all": a block holds the state after its last token (S-077, S-111)."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.vllm.block_pool import KVCacheBlock
from serq.runtime.vllm.groups.base import Blocks, Found, LookupRange, SingleTypeKVCacheManager, SlotDemand
from serq.runtime.vllm.kv_cache_spec import MambaSpec
from serq.runtime.vllm.request import Request


class MambaManager(SingleTypeKVCacheManager[MambaSpec]):
    """Block tables of layers that keep a state; only the last one is needed to go on."""

    supports_fine_grained_hits = True
    cached_this_step: set[int]

    def find_longest_cache_hit(
        self, block_hashes: Sequence[int], group_ids: Sequence[int], within: LookupRange
    ) -> Found:
        """The last cached state within the range; null before it (S-077, S-127)."""
        unit = min(within.alignment, self.block_size)
        limit = min(within.max_length, len(block_hashes) * self.hash_block_size)
        for end in range(limit // unit * unit, 0, -unit):
            cached = self._cached_at(block_hashes, end, group_ids)
            if cached is not None and end % within.alignment == 0:
                before = (end - 1) // self.block_size
                return [[self.pool.null_block] * before + [block] for block in cached], end
        empty: list[list[KVCacheBlock]] = [[] for _ in group_ids]
        return empty, 0

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """All but the last computed token (S-091)."""
        return num_computed_tokens - 1

    def num_blocks_to_allocate(self, demand: SlotDemand, hit: Blocks) -> int:
        """As for attention, with one more state per speculative block; infinite for a state of this step."""
        if self._hits_state_of_this_step(hit):
            return self.pool.num_gpu_blocks + 1
        return super().num_blocks_to_allocate(self._with_speculative_blocks(demand), hit)

    def _hits_state_of_this_step(self, hit: Blocks) -> bool:
        """Whether the hit is a state that this very step is going to compute (S-115)."""
        return bool(hit) and bool(hit[-1].keys) and hit[-1].keys[0] in self.cached_this_step

    def _with_speculative_blocks(self, demand: SlotDemand) -> SlotDemand:
        extra = self.spec.num_speculative_blocks * self.block_size
        return demand._replace(num_slots=demand.num_slots + extra) if extra else demand

    def allocate_new_blocks(self, demand: SlotDemand) -> None:
        """One state per block of tokens and the speculative ones (S-111)."""
        super().allocate_new_blocks(self._with_speculative_blocks(demand))

    def cache_blocks(self, request: Request, num_tokens: int, retention_interval: int | None) -> None:
        """Publish states and remember which of them this step only computes (S-115)."""
        start = self.num_cached_blocks.get(request.request_id, 0)
        super().cache_blocks(request, num_tokens, retention_interval)
        end = self.num_cached_blocks.get(request.request_id, 0)
        for block in self.block_tables[request.request_id][start:end]:
            if block.keys:
                self.cached_this_step.add(block.keys[0])

    def reachable_blocks(
        self, start: int, end: int, retention_interval: int | None, boundaries: Sequence[int]
    ) -> Sequence[int] | None:
        """With retention: the state at the end of each segment and at each boundary (S-082)."""
        if retention_interval is None:
            return None
        kept: set[int] = set()
        if retention_interval:
            per_segment = retention_interval // self.block_size
            kept = {index for index in range(start, end) if (index + 1) % per_segment == 0}
        for boundary in boundaries:
            index = boundary // self.scheduler_block_size * self.scheduler_block_size // self.block_size - 1
            if start <= index < end:
                kept.add(index)
        return sorted(kept)

    def new_step_starts(self) -> None:
        """States published earlier have been computed."""
        self.cached_this_step = set()
