"""The KV cache of an engine with one group of full attention, over extents instead of blocks."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.extents.chains import PrefixChain
from serq.runtime.vllm.extents.pool import BlockTable, ExtentPool, Stretch
from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.kv_cache_spec import FullAttentionSpec, ceil_div
from serq.runtime.vllm.prefix_lookup import PrefixHit
from serq.runtime.vllm.request import Request


class ExtentHit(PrefixHit, frozen=True):
    """A hit as stretches of extents."""

    extents: Sequence[Stretch] = ()


def suits_extents(config: EngineConfig) -> bool:
    """Whether extents can stand for such an engine's blocks: full attention alone, nothing transferred."""
    return (
        len(config.groups) == 1
        and isinstance(config.groups[0].spec, FullAttentionSpec)
        and not config.groups[0].eagle
        and config.speculative is None
        and config.kv_transfer is None
    )


class ExtentKVCacheManager(KVCacheManager):
    """What :class:`KVCacheManager` is, where it :func:`suits_extents`; equal in all but block ids."""

    block_pool: ExtentPool

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._max_model_len = config.max_model_len
        self.block_pool = ExtentPool(config.num_gpu_blocks, enable_caching=config.enable_prefix_caching)
        self.managers = ()
        self.lookup = None
        self.no_hit: PrefixHit = ExtentHit(())
        self.block_size = config.groups[0].spec.block_size
        self.tables: dict[str, BlockTable] = {}

    # ---- hits -------------------------------------------------------------

    def get_computed_blocks(self, request: Request) -> PrefixHit:
        """What of ``request`` is cached: at most all but its last token (S-070, S-071)."""
        if not self.config.enable_prefix_caching or request.skip_reading_prefix_cache:
            return self.no_hit
        limit = (request.num_tokens - 1) // self.block_size
        extents, length = self.block_pool.find(request.block_hashes, limit)
        if not length:
            return self.no_hit
        return ExtentHit((), length * self.block_size, extents=extents)

    def cached_tokens(self, keys: PrefixChain, num_tokens: int) -> int:
        """How many of the ``num_tokens`` tokens with prefixes ``keys`` are cached here."""
        _, length = self.block_pool.find(keys, num_tokens // self.block_size)
        return length * self.block_size

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
        """Give ``request`` slots for ``num_new_tokens`` more tokens; False, nothing taken, if they lack."""
        limit, size, pool = self._max_model_len, self.block_size, self.block_pool
        num_main = min(request.num_computed_tokens + (hit.num_tokens if hit else 0), limit) + num_new_tokens
        table = self.tables.get(request.request_id)
        held = table.held if table is not None else 0
        required = ceil_div(min(num_main, limit), size)
        extents: Sequence[Stretch] = ()
        hit_blocks = evictable = 0
        if hit is not None and hit.num_tokens:
            assert isinstance(hit, ExtentHit)
            extents, hit_blocks = hit.extents, hit.num_tokens // size
            evictable = sum(end - extent.lo for extent, end in extents if not extent.holders)
        spare = pool.num_free_blocks - evictable - self._watermark(request, has_running)
        if full_sequence_must_fit:
            whole = ceil_div(min(request.num_tokens, limit), size)
            if max(whole - hit_blocks - held, 0) > spare:
                return False
        if max(required - hit_blocks - held, 0) > spare:
            return False
        if table is None:
            table = self.tables[request.request_id] = BlockTable()
        if extents:
            pool.take_hit(table, extents)
        if required > table.held:
            pool.take(required - table.held)
            table.held = required
        self.cache_blocks(request, min(num_main, request.num_tokens))
        return True

    def remaining_blocks(self, request: Request) -> int:
        """Blocks ``request`` still needs for all its tokens (S-133)."""
        whole = ceil_div(min(request.num_tokens, self._max_model_len), self.block_size)
        table = self.tables.get(request.request_id)
        return max(whole - (table.held if table is not None else 0), 0)

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        """Publish the whole blocks among the first ``num_tokens`` tokens (S-080)."""
        end = num_tokens // self.block_size
        table = self.tables[request.request_id]
        if end > table.published and self.config.enable_prefix_caching:
            self.block_pool.publish_prefix(table, request.block_hashes, end)

    def held_tokens(self, request_id: str) -> int:
        """The slots of the blocks that ``request_id`` holds."""
        table = self.tables.get(request_id)
        return table.held * self.block_size if table is not None else 0

    # ---- release ----------------------------------------------------------

    def free(self, request: Request) -> None:
        """Free the blocks of ``request``."""
        table = self.tables.pop(request.request_id, None)
        if table is not None:
            self.block_pool.release(table)

    def remove_skipped_blocks(self, request: Request) -> None:
        """Full attention keeps everything."""

    # ---- what a step reports ----------------------------------------------

    def new_step_starts(self) -> None:
        """A step is about to be formed."""

    def block_ids(self, request_id: str) -> list[list[int]]:
        """Extents have no ids."""
        return [[]]

    def num_common_prefix_blocks(self, request_id: str) -> list[int]:
        """Leading blocks that every request with blocks here holds, one group (S-095)."""
        table = self.tables.get(request_id)
        common = 0
        for extent in () if table is None else table.extents:
            if len(extent.holders) != len(self.tables):
                return [common]
            common += extent.hi - extent.lo
        if table is not None and len(self.tables) == 1 and self.config.enable_prefix_caching:
            common = table.held
        return [common]
