"""What the managers of all kinds share: block tables, demand, allocation, publication, release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from serq.runtime.vllm.block_pool import BlockPool, KVCacheBlock
from serq.runtime.vllm.kv_cache_spec import KVCacheSpec, ceil_div
from serq.runtime.vllm.request import Request

Spec = TypeVar("Spec", bound=KVCacheSpec)
Blocks = Sequence[KVCacheBlock]


class SlotDemand(NamedTuple):
    """What a request wants slots for (S-085), in tokens.

    ``num_slots`` in all, lookahead included; ``num_main_tokens`` the same without lookahead;
    ``num_computed_tokens`` known to be computed by the time the share runs, ``num_local_tokens`` of them
    here and not by a connector. ``capped``: count no more than a request can hold at once (S-089).
    """

    request_id: str
    num_slots: int
    num_main_tokens: int
    num_computed_tokens: int
    num_local_tokens: int
    capped: bool = False


class LookupRange(msgspec.Struct, frozen=True):
    """Where a lookup may end: at most at ``max_length`` tokens, on a multiple of ``alignment`` tokens.

    ``drop_eagle_block``: the last matched unit is computed again for the drafter's sake (S-074).
    """

    max_length: int
    alignment: int
    drop_eagle_block: bool = False


Found = tuple[list[list[KVCacheBlock]], int]
"""(blocks per group, hit length in tokens) of a lookup."""


class SingleTypeKVCacheManager(ABC, Generic[Spec]):
    """Block tables of one group, by request id."""

    is_full_attention = False
    supports_fine_grained_hits = False

    def __init__(
        self,
        spec: Spec,
        *,
        group_id: int,
        pool: BlockPool,
        hash_block_size: int,
        scheduler_block_size: int,
        admission_cap: int | None,
        use_eagle: bool,
        needs_zeroing: bool,
    ) -> None:
        self.spec = spec
        self.group_id = group_id
        self.pool = pool
        self.hash_block_size = hash_block_size
        self.scheduler_block_size = scheduler_block_size
        self.admission_cap = admission_cap
        self.use_eagle = use_eagle
        self.block_size: int = spec.block_size
        self.records_new_blocks = needs_zeroing and self.is_full_attention
        self.block_tables: dict[str, list[KVCacheBlock]] = {}
        self.num_cached_blocks: dict[str, int] = {}
        self.partial_hits: dict[str, tuple[int, KVCacheBlock]] = {}
        self.pending_copies: list[tuple[KVCacheBlock, KVCacheBlock]] = []
        self.new_block_ids: list[int] = []
        self.new_step_starts()

    # ---- lookup ---------------------------------------------------------

    @abstractmethod
    def find_longest_cache_hit(
        self, block_hashes: Sequence[int], group_ids: Sequence[int], within: LookupRange
    ) -> Found:
        """The longest cached prefix within the range, for groups ``group_ids`` of this spec together.

        Blocks a group of this kind does not need are null.
        """

    def _cached_at(
        self, hashes: Sequence[int], end: int, group_ids: Sequence[int]
    ) -> list[KVCacheBlock] | None:
        """The blocks that cache the prefix of ``end`` tokens."""
        return self.pool.get_cached_blocks(hashes[end // self.hash_block_size - 1], group_ids)

    # ---- demand (S-087) --------------------------------------------------

    def num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Leading tokens that later tokens do not attend to (S-091)."""
        return 0

    def num_blocks_to_allocate(self, demand: SlotDemand, hit: Blocks) -> int:
        """Blocks that must be free for ``demand``, hit blocks in the free list included (S-087)."""
        required = ceil_div(demand.num_slots, self.block_size)
        if demand.capped and self.admission_cap is not None:
            required = min(required, self.admission_cap)
        held = len(self.block_tables.get(demand.request_id, ()))
        if demand.request_id in self.num_cached_blocks:
            return max(required - held, 0)
        skipped = self.num_skipped_tokens(demand.num_computed_tokens) // self.block_size
        needed = max(required - max(skipped, len(hit) + held), 0)
        evictable = sum(block.is_evictable for block in hit[max(0, skipped - held) :])
        return needed + evictable + self._hits_inside_block(hit, demand.num_local_tokens)

    def _hits_inside_block(self, hit: Blocks, num_local_tokens: int) -> bool:
        """Whether the local hit ends inside a block of this group, which then must be copied (S-129)."""
        return len(hit) > 0 and num_local_tokens % self.block_size != 0

    # ---- allocation ------------------------------------------------------

    def take_hit_blocks(
        self, request_id: str, hit: Blocks, num_local_tokens: int, num_external_tokens: int
    ) -> None:
        """Start the table of ``request_id`` with its hit, null where tokens are skipped (S-086 (4))."""
        num_skipped = self.num_skipped_tokens(num_local_tokens + num_external_tokens) // self.block_size
        if num_skipped > 0:
            hit = hit[num_skipped:]
        self.pool.touch(hit)
        table = [self.pool.null_block] * num_skipped + list(hit)
        self.block_tables[request_id] = table
        self.num_cached_blocks[request_id] = len(table)
        if self._hits_inside_block(hit, num_local_tokens):
            index = num_local_tokens // self.block_size
            self.partial_hits[request_id] = (index, hit[-1])
            self.num_cached_blocks[request_id] = index

    def take_external_blocks(self, request_id: str, num_local_tokens: int, num_external_tokens: int) -> None:
        """Take blocks for what a connector loads, as far as it is not skipped (S-133)."""
        total = num_local_tokens + num_external_tokens
        if min(num_external_tokens, total - self.num_skipped_tokens(total)) > 0:
            table = self.block_tables[request_id]
            self._take_new(table, ceil_div(total, self.block_size) - len(table))

    def allocate_new_blocks(self, demand: SlotDemand) -> None:
        """Take the blocks ``demand`` lacks (S-086 (5)), first the one a shared tail is copied to (S-129)."""
        table = self.block_tables.setdefault(demand.request_id, [])
        if demand.request_id in self.partial_hits:
            index, source = self.partial_hits.pop(demand.request_id)
            copy = self.pool.get_new_blocks(1)[0]
            self._replace_by_copy(table, index, source, copy)
            self.new_block_ids.append(copy.block_id)
        self._take_new(table, ceil_div(demand.num_slots, self.block_size) - len(table))

    def _take_new(self, table: list[KVCacheBlock], count: int) -> None:
        if count <= 0:
            return
        blocks = self.pool.get_new_blocks(count)
        table.extend(blocks)
        if self.records_new_blocks:
            self.new_block_ids.extend(block.block_id for block in blocks)

    def _replace_by_copy(
        self, table: list[KVCacheBlock], index: int, source: KVCacheBlock, copy: KVCacheBlock
    ) -> None:
        """Put ``copy`` where ``source`` was shared; both stay referenced until the step is formed (S-129)."""
        table[index] = copy
        self.pending_copies.append((source, copy))
        copy.ref_cnt += 1

    # ---- publication (S-080, S-082) --------------------------------------

    def cache_blocks(self, request: Request, num_tokens: int, retention_interval: int | None) -> None:
        """Make the whole blocks among the first ``num_tokens`` tokens findable."""
        start = self.num_cached_blocks.get(request.request_id, 0)
        end = num_tokens // self.block_size
        if start >= end:
            return
        boundaries = [request.num_prompt_tokens - 1]
        if request.shared_prefix_boundary:
            boundaries.append(request.shared_prefix_boundary)
        kept = self.reachable_blocks(start, end, retention_interval, boundaries)
        table = self.block_tables[request.request_id]
        stride = self.block_size // self.hash_block_size
        for index in range(start, end) if kept is None else kept:
            block = table[index]
            if not block.is_null:
                key = request.block_hashes[(index + 1) * stride - 1]
                self.pool.publish(block, key, self.group_id, (index + 1) * self.block_size)
        self.num_cached_blocks[request.request_id] = end

    def reachable_blocks(
        self, start: int, end: int, retention_interval: int | None, boundaries: Sequence[int]
    ) -> Sequence[int] | None:
        """Which of blocks ``start`` to ``end - 1`` a later lookup could use, ascending; None: all (S-082)."""
        return None

    def partial_tail(self, request: Request) -> int:
        """The prompt's last hash boundary if it lies inside a block of this group, else 0 (S-128)."""
        boundary = request.num_prompt_tokens // self.hash_block_size * self.hash_block_size
        return boundary if boundary % self.block_size else 0

    # ---- release ---------------------------------------------------------

    def remove_skipped_blocks(self, request_id: str, num_processed_tokens: int) -> None:
        """Free the blocks that ``num_processed_tokens`` processed tokens leave out of reach (S-091)."""
        num_skipped = self.num_skipped_tokens(num_processed_tokens)
        if num_skipped <= 0:
            return
        table = self.block_tables.get(request_id, [])
        freed = []
        for index in range(min(num_skipped // self.block_size, len(table)) - 1, -1, -1):
            if table[index].is_null:
                break
            freed.append(table[index])
            table[index] = self.pool.null_block
        self.pool.free_blocks(freed)

    def pop_blocks(self, request_id: str) -> list[KVCacheBlock]:
        """Forget ``request_id``; its blocks in table order, still referenced."""
        self.num_cached_blocks.pop(request_id, None)
        self.partial_hits.pop(request_id, None)
        return self.block_tables.pop(request_id, [])

    def free(self, request_id: str) -> None:
        """Free the blocks of ``request_id``, the last one first (S-092)."""
        self.pool.free_blocks(reversed(self.pop_blocks(request_id)))

    # ---- the step --------------------------------------------------------

    def new_step_starts(self) -> None:
        """A step is about to be formed."""

    def num_common_prefix_blocks(self, request_id: str) -> int:
        """Leading blocks that every request with blocks here shares (S-095); 0 where not defined."""
        return 0

    def take_pending_copies(self) -> list[tuple[KVCacheBlock, KVCacheBlock]]:
        """The (source, copy) pairs ordered since the last call (S-129)."""
        copies, self.pending_copies = self.pending_copies, []
        return copies

    def take_new_block_ids(self) -> list[int]:
        """Ids of the blocks to zero taken since the last call (S-122)."""
        ids, self.new_block_ids = self.new_block_ids, []
        return ids
