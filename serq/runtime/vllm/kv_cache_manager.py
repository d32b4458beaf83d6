"""The KV cache of an engine: hits, slots, publication and release over all its groups (S-070 to S-095)."""

from __future__ import annotations

from typing import Any

from serq.runtime.vllm.block_pool import BlockPool, KVCacheBlock
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.groups import KVCacheGroupManager, create_manager
from serq.runtime.vllm.groups.base import SlotDemand
from serq.runtime.vllm.groups.mamba_align import MambaAlignManager
from serq.runtime.vllm.kv_cache_spec import MambaSpec
from serq.runtime.vllm.prefix_lookup import PrefixHit, PrefixLookup
from serq.runtime.vllm.request import Request, RequestStatus


class KVCacheManager:
    """Block tables of all groups over one pool."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._max_model_len = config.max_model_len
        self.block_pool = BlockPool(
            config.num_gpu_blocks, len(config.groups), enable_caching=config.enable_prefix_caching
        )
        self.managers = self._create_managers()
        self._releasing = [manager for manager in self.managers if not manager.is_full_attention]
        self.lookup = PrefixLookup(config, self.managers) if config.enable_prefix_caching else None
        self.no_hit = PrefixHit(tuple(() for _ in self.managers))
        self._scheduler_block_size, _ = config.block_sizes
        self._floors_publication = len(self.managers) > 1 and not config.fine_grained_hits
        self._tail_pins: dict[str, list[KVCacheBlock]] = {}

    def _create_managers(self) -> tuple[KVCacheGroupManager, ...]:
        config = self.config
        scheduler_block_size, hash_block_size = config.block_sizes
        flagged = any(group.eagle for group in config.groups)
        return tuple(
            create_manager(
                group.spec,
                group_id=group_id,
                pool=self.block_pool,
                hash_block_size=hash_block_size,
                scheduler_block_size=scheduler_block_size,
                admission_cap=group.spec.admission_cap(config.max_in_flight_tokens, config.max_model_len),
                use_eagle=group.eagle or (config.uses_eagle and not flagged),
                needs_zeroing=config.has_mamba,
            )
            for group_id, group in enumerate(config.groups)
        )

    # ---- hits -------------------------------------------------------------

    def get_computed_blocks(self, request: Request) -> PrefixHit:
        """What of ``request`` is cached: at most all but its last token (S-070, S-071)."""
        if self.lookup is None or request.skip_reading_prefix_cache:
            return self.no_hit
        return self.lookup.find(request.block_hashes, request.num_tokens - 1)

    def get_computed_blocks_for_connector(self, request: Request) -> PrefixHit:
        """The same, where a connector may supply the rest: the full-attention hit of a mamba hybrid (S-136).

        Unless another group hit deeper, then the agreed hit. The result may have diverged.
        """
        full = None if self.lookup is None else self.lookup.full_attention_group
        if self.lookup is None or full is None or not self.config.has_mamba or len(self.managers) == 1:
            return self.get_computed_blocks(request)
        if request.skip_reading_prefix_cache:
            return self.no_hit
        blocks, lengths = self.lookup.find_per_group(request.block_hashes, request.num_tokens - 1)
        if max(lengths) > lengths[full]:
            return self.get_computed_blocks(request)
        return PrefixHit(blocks, lengths[full], diverged=min(lengths) < lengths[full])

    def truncate(self, hit: PrefixHit, num_tokens: int) -> PrefixHit:
        """``hit`` cut to ``num_tokens``, a multiple of every block size (S-131)."""
        blocks = tuple(
            held[: num_tokens // manager.block_size]
            for held, manager in zip(hit.blocks, self.managers, strict=True)
        )
        return PrefixHit(blocks, num_tokens, hit.junction, hit.diverged)

    def cached_tokens(self, keys: Any, num_tokens: int) -> int:
        """How many of the first ``num_tokens`` tokens with prefix keys ``keys`` are cached here."""
        return 0 if self.lookup is None else self.lookup.find(keys, num_tokens).num_tokens

    def held_tokens(self, request_id: str) -> int:
        """The slots of the blocks that ``request_id`` holds in the groups that keep keys and values."""
        held = 0
        for manager in self.managers:
            if not isinstance(manager.spec, MambaSpec):
                table = manager.block_tables.get(request_id, ())
                held += sum(not block.is_null for block in table) * manager.block_size
        return held

    # ---- slots ------------------------------------------------------------

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        *,
        hit: PrefixHit | None = None,
        num_lookahead_tokens: int = 0,
        num_external_tokens: int = 0,
        delay_publication: bool = False,
        full_sequence_must_fit: bool = False,
        num_reserved_blocks: int = 0,
        has_running: bool = True,
    ) -> bool:
        """Give ``request`` slots for ``num_new_tokens`` more tokens; False, and nothing taken, if they lack.

        The order is that of S-086: full-sequence test, release of skipped blocks (even if the call then
        fails), test of this share, hit blocks, new blocks, publication.
        """
        hit = hit or self.no_hit
        limit = self._max_model_len
        num_local = request.num_computed_tokens + hit.num_tokens
        num_computed = num_local + num_external_tokens
        num_main = min(num_computed, limit) + num_new_tokens
        demand = SlotDemand(
            request.request_id, min(num_main + num_lookahead_tokens, limit), num_main, num_computed, num_local
        )
        watermark = self._watermark(request, has_running)
        if full_sequence_must_fit and not self._full_sequence_fits(request, demand, hit, watermark):
            return False
        self._release_skipped(request.request_id, min(num_computed, limit) - request.num_in_flight_tokens)
        if self._demand(demand, hit) + watermark > self.block_pool.num_free_blocks - num_reserved_blocks:
            return False
        if num_external_tokens or any(hit.blocks):
            self._take_computed(demand, hit, num_external_tokens)
        for manager in self.managers:
            manager.allocate_new_blocks(demand)
        if not delay_publication:
            self.cache_blocks(request, min(num_main, request.num_tokens))
        return True

    def _watermark(self, request: Request, has_running: bool) -> int:
        """Blocks to leave free (S-090): only admissions while something runs keep the watermark."""
        waits = request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
        return self.config.watermark_blocks if waits and has_running else 0

    def _full_sequence_fits(
        self, request: Request, demand: SlotDemand, hit: PrefixHit, watermark: int
    ) -> bool:
        """Whether all tokens known so far would fit (S-086 (1))."""
        limit = self._max_model_len
        full = min(request.num_tokens, limit)
        whole = demand._replace(
            num_slots=full,
            num_main_tokens=full,
            num_computed_tokens=min(demand.num_computed_tokens, limit),
            capped=True,
        )
        return self._demand(whole, hit) + watermark <= self.block_pool.num_free_blocks

    def _demand(self, demand: SlotDemand, hit: PrefixHit) -> int:
        """Blocks that all groups together need (S-088)."""
        total = 0
        for manager, blocks in zip(self.managers, hit.blocks, strict=True):
            total += manager.num_blocks_to_allocate(demand, blocks)
        return total

    def _take_computed(self, demand: SlotDemand, hit: PrefixHit, num_external_tokens: int) -> None:
        """Take the hits of every group before any group takes blocks, which could be another's hit."""
        request_id = demand.request_id
        if any(request_id in manager.num_cached_blocks for manager in self.managers):
            return
        num_local = demand.num_local_tokens
        for manager, blocks in zip(self.managers, hit.blocks, strict=True):
            manager.take_hit_blocks(request_id, blocks, num_local, num_external_tokens)
        if num_external_tokens:
            for manager in self.managers:
                manager.take_external_blocks(request_id, num_local, num_external_tokens)

    def remaining_blocks(self, request: Request) -> int:
        """Blocks ``request`` still needs for all its tokens (S-133)."""
        full = min(request.num_tokens, self._max_model_len)
        computed = request.num_computed_tokens
        return self._demand(
            SlotDemand(request.request_id, full, full, computed, computed, capped=True), self.no_hit
        )

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        """Publish the whole blocks among the first ``num_tokens`` tokens (S-080, S-081)."""
        if not self.config.enable_prefix_caching:
            return
        interval = self.config.retention_interval
        if not self._floors_publication:
            for manager in self.managers:
                manager.cache_blocks(request, num_tokens, interval)
            return
        aligned = num_tokens // self._scheduler_block_size * self._scheduler_block_size
        for manager in self.managers:
            published = aligned
            if manager.use_eagle and aligned:
                published = min(num_tokens, aligned + manager.block_size)
            manager.cache_blocks(request, published, interval)

    # ---- release ----------------------------------------------------------

    def free(self, request: Request) -> None:
        """Free the blocks of ``request``, group after group (S-093)."""
        self.block_pool.free_blocks(self._tail_pins.pop(request.request_id, ()))
        for manager in self.managers:
            manager.free(request.request_id)

    def pop_blocks(self, request: Request) -> list[KVCacheBlock]:
        """Forget ``request``; its blocks, still referenced, to be freed last one first (S-093)."""
        blocks = self._tail_pins.pop(request.request_id, [])
        for manager in self.managers:
            blocks = blocks + manager.pop_blocks(request.request_id)
        return blocks

    def remove_skipped_blocks(self, request: Request) -> None:
        """Free what the processed tokens of ``request`` leave out of reach (S-091, S-105)."""
        self._release_skipped(request.request_id, request.num_computed_tokens - request.num_in_flight_tokens)

    def _release_skipped(self, request_id: str, num_processed_tokens: int) -> None:
        for manager in self._releasing:
            manager.remove_skipped_blocks(request_id, max(0, num_processed_tokens))

    def reset_prefix_cache(self) -> bool:
        """Forget all cached prefixes; False if blocks are held (S-141)."""
        return self.block_pool.reset_prefix_cache()

    # ---- what a step reports ----------------------------------------------

    def new_step_starts(self) -> None:
        """A step is about to be formed."""
        for manager in self.managers:
            manager.new_step_starts()

    def block_ids(self, request_id: str) -> list[list[int]]:
        """The block table of ``request_id`` in every group."""
        tables = [manager.block_tables.get(request_id, ()) for manager in self.managers]
        return [[block.block_id for block in table] for table in tables]

    def num_common_prefix_blocks(self, request_id: str) -> list[int]:
        """Leading blocks all requests share, per group (S-095); zeros with caching off."""
        if not self.config.enable_prefix_caching:
            return [0] * len(self.managers)
        return [manager.num_common_prefix_blocks(request_id) for manager in self.managers]

    def take_block_copies(self) -> list[tuple[KVCacheBlock, KVCacheBlock]]:
        """The copies ordered since the last call, group after group (S-129)."""
        return [pair for manager in self.managers for pair in manager.take_pending_copies()]

    def take_new_block_ids(self) -> list[int]:
        """Blocks to zero taken since the last call, group after group (S-122)."""
        return [block_id for manager in self.managers for block_id in manager.take_new_block_ids()]

    def block_ids_between(self, request_id: str, start: int, end: int) -> list[int]:
        """Ids of the zeroed kind of blocks that hold tokens ``start`` to ``end - 1``."""
        return [
            block.block_id
            for manager in self.managers
            if manager.records_new_blocks
            for block in manager.block_tables[request_id][
                start // manager.block_size : -(-end // manager.block_size)
            ]
        ]

    def zero_from(self, request_id: str, start: int) -> None:
        """Have the blocks from token ``start`` on zeroed: a load left them unwritten."""
        for manager in self.managers:
            if manager.records_new_blocks:
                table = manager.block_tables[request_id][start // manager.block_size :]
                manager.new_block_ids.extend(block.block_id for block in table)

    def pin_tail_offloads(self) -> None:
        """Hold the copied tails a producer hands over, until their request's blocks are freed."""
        for manager in self.managers:
            if isinstance(manager, MambaAlignManager):
                for request_id, block, _ in manager.take_tail_offloads():
                    self.block_pool.touch((block,))
                    self._tail_pins.setdefault(request_id, []).append(block)
