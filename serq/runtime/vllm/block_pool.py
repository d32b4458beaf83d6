"""All KV cache blocks of an engine: which are free, in which order they are reused, what each one caches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from serq.errors import RunError


class KVCacheBlock:
    """One block. ``keys`` are the prefix keys under which it can be found, the primary one first.

    The keys belong to group ``group_id``; ``num_cached_tokens`` is the prefix length of the primary key.
    """

    __slots__ = ("block_id", "group_id", "is_null", "keys", "num_cached_tokens", "ref_cnt")

    def __init__(self, block_id: int, *, is_null: bool = False) -> None:
        self.block_id = block_id
        self.is_null = is_null
        self.ref_cnt = 0
        self.group_id = 0
        self.keys: list[int] = []
        self.num_cached_tokens = 0

    def __repr__(self) -> str:
        return f"KVCacheBlock({self.block_id}, refs={self.ref_cnt}, keys={self.keys})"

    @property
    def is_evictable(self) -> bool:
        """Whether the block sits in the free list."""
        return self.ref_cnt == 0 and not self.is_null


class PrefixCache:
    """Prefix key -> blocks of one group that hold it; among copies the first inserted is used (S-073)."""

    __slots__ = ("_copies", "_first")

    def __init__(self) -> None:
        self._first: dict[int, KVCacheBlock] = {}
        self._copies: dict[int, list[KVCacheBlock]] = {}

    def get(self, key: int) -> KVCacheBlock | None:
        """The block to use for ``key``."""
        return self._first.get(key)

    def insert(self, key: int, block: KVCacheBlock) -> None:
        """Make ``block`` reachable under ``key``, after the copies already there."""
        if self._first.setdefault(key, block) is not block:
            self._copies.setdefault(key, []).append(block)

    def remove(self, key: int, block: KVCacheBlock) -> None:
        """Make ``block`` unreachable under ``key``; the next copy takes its place."""
        copies = self._copies.get(key)
        if copies is None:
            del self._first[key]
            return
        if self._first[key] is block:
            self._first[key] = copies.pop(0)
        else:
            copies.remove(block)
        if not copies:
            del self._copies[key]


class BlockPool:
    """The blocks and their free list (S-005, S-092, S-094).

    The head of the free list is reused first. Block 0 is the null block: it stands where a table needs an
    entry and no block, is never free and its references are not counted.
    """

    def __init__(self, num_gpu_blocks: int, num_groups: int, *, enable_caching: bool) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.enable_caching = enable_caching
        self.blocks = [KVCacheBlock(block_id, is_null=block_id == 0) for block_id in range(num_gpu_blocks)]
        self.null_block = self.blocks[0]
        self._free = OrderedDict((block.block_id, block) for block in self.blocks[1:])
        self._caches = [PrefixCache() for _ in range(num_groups)]

    @property
    def num_free_blocks(self) -> int:
        """Blocks nobody references; some of them may still cache a prefix."""
        return len(self._free)

    @property
    def free_block_ids(self) -> list[int]:
        """The free list from head to tail."""
        return list(self._free)

    @property
    def usage(self) -> float:
        """Share of the usable blocks that are referenced, 0 to 1."""
        usable = self.num_gpu_blocks - 1
        return 1.0 - len(self._free) / usable if usable else 0.0

    def get_cached_blocks(self, key: int, group_ids: Sequence[int]) -> list[KVCacheBlock] | None:
        """One block per group that caches the prefix ``key``, or None if some group has none (S-078)."""
        blocks = []
        for group_id in group_ids:
            block = self._caches[group_id].get(key)
            if block is None:
                return None
            blocks.append(block)
        return blocks

    def get_new_blocks(self, count: int) -> list[KVCacheBlock]:
        """Take ``count`` blocks from the head of the free list; what they cached is lost (S-092).

        Raises RunError if they are not there: where the demand was underestimated vLLM fails as well.
        """
        if count > len(self._free):
            free = len(self._free)
            raise RunError(f"{count} KV cache blocks are wanted and {free} are free: vLLM stops here")
        blocks = []
        for _ in range(count):
            _, block = self._free.popitem(last=False)
            if block.keys:
                self.evict(block)
            block.ref_cnt = 1
            blocks.append(block)
        return blocks

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Take a reference to each of ``blocks``, out of the free list where it is there (S-094)."""
        for block in blocks:
            if block.is_evictable:
                del self._free[block.block_id]
            block.ref_cnt += 1

    def free_blocks(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Drop a reference to each of ``blocks``; those nobody holds any more join the free list (S-092).

        Blocks that cache something join the tail, the first of ``blocks`` first. Blocks that cache nothing
        go to the head in the same order, so that they are reused first; with caching off all join the tail.
        """
        uncached = []
        for block in blocks:
            block.ref_cnt -= 1
            if block.is_evictable:
                if block.keys or not self.enable_caching:
                    self._free[block.block_id] = block
                else:
                    uncached.append(block)
        for block in reversed(uncached):
            self._free[block.block_id] = block
            self._free.move_to_end(block.block_id, last=False)

    def publish(self, block: KVCacheBlock, key: int, group_id: int, num_tokens: int) -> None:
        """Make ``block`` findable as the last block of a prefix of ``num_tokens`` tokens.

        A shorter, partial entry of the block gives way to the longer one (S-128).
        """
        if key in block.keys:
            return
        if block.keys and block.num_cached_tokens < num_tokens:
            self.evict(block)
        if not block.keys:
            block.group_id = group_id
            block.num_cached_tokens = num_tokens
        block.keys.append(key)
        self._caches[group_id].insert(key, block)

    def evict(self, block: KVCacheBlock) -> None:
        """Forget everything ``block`` caches; whoever references it keeps it (S-134)."""
        for key in block.keys:
            self._caches[block.group_id].remove(key, block)
        block.keys = []

    def move_keys(self, source: KVCacheBlock, target: KVCacheBlock) -> None:
        """Let ``target`` be found wherever ``source`` was (S-129)."""
        keys, num_tokens = source.keys, source.num_cached_tokens
        self.evict(source)
        for key in keys:
            self.publish(target, key, source.group_id, num_tokens)

    def reset_prefix_cache(self) -> bool:
        """Forget all prefixes; refused, without effect, while any block is referenced (S-141)."""
        if len(self._free) != self.num_gpu_blocks - 1:
            return False
        for block in self.blocks:
            block.keys = []
        self._caches = [PrefixCache() for _ in self._caches]
        return True
