"""How far the cached prefix of a request reaches, agreed on by all KV cache groups (S-070 to S-079)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from serq.runtime.vllm.block_pool import KVCacheBlock
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.groups import KVCacheGroupManager
from serq.runtime.vllm.groups.base import LookupRange
from serq.runtime.vllm.kv_cache_spec import MambaSpec, ceil_div


class PrefixHit(msgspec.Struct, frozen=True):
    """The result of a lookup.

    ``blocks`` per group, ``num_tokens`` of them usable; ``junction`` is where some group's hit reached
    when it went further than the others' (S-079), else 0. ``diverged``: the blocks of some group end
    before ``num_tokens``, so the hit stands only if a connector supplies the rest (S-136).
    """

    blocks: tuple[Sequence[KVCacheBlock], ...]
    num_tokens: int = 0
    junction: int = 0
    diverged: bool = False


class _SpecGroup:
    """The groups of one spec, which are looked up together and must all hit (S-078)."""

    def __init__(self, manager: KVCacheGroupManager) -> None:
        self.manager = manager
        self.group_ids = [manager.group_id]
        self.use_eagle = manager.use_eagle

    def join(self, manager: KVCacheGroupManager) -> None:
        """Take in one more group; eagle in one of them is eagle in all."""
        self.group_ids.append(manager.group_id)
        self.use_eagle |= manager.use_eagle


class _Agreement:
    """A lookup in progress: per spec group the blocks found last, and the length agreed on so far."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.length = limit
        self.longest = 0
        self.blocks: dict[int, list[list[KVCacheBlock]]] = {}
        self.full_length = 0
        self.eagle_dropped: set[int] = set()


class PrefixLookup:
    """Finds prefix hits across the groups of an engine."""

    def __init__(self, config: EngineConfig, managers: Sequence[KVCacheGroupManager]) -> None:
        self._num_groups = len(managers)
        _, self._hash_block_size = config.block_sizes
        self._fine_grained = config.fine_grained_hits
        self._alignment = config.hit_alignment
        self._spec_groups = self._collect(managers)
        first = self._spec_groups[0].manager
        self._full = self._spec_groups[0] if first.is_full_attention else None
        self._one_pass = len(self._spec_groups) == 1 or (
            len(self._spec_groups) == 2 and self._full is not None
        )

    @staticmethod
    def _collect(managers: Sequence[KVCacheGroupManager]) -> list[_SpecGroup]:
        groups: list[_SpecGroup] = []
        for manager in managers:
            same = next((group for group in groups if group.manager.spec == manager.spec), None)
            if same is None:
                groups.append(_SpecGroup(manager))
            else:
                same.join(manager)
        groups.sort(key=lambda group: not group.manager.is_full_attention)
        for group in groups:
            for group_id in group.group_ids:
                managers[group_id].use_eagle = group.use_eagle
        return groups

    @property
    def full_attention_group(self) -> int | None:
        """The first group of full attention, None if there is none."""
        return None if self._full is None else self._full.group_ids[0]

    def find(self, hashes: Sequence[int], limit: int) -> PrefixHit:
        """The longest prefix up to ``limit`` tokens that every group can serve (S-078).

        Each spec in turn shortens the length, full attention first, until a whole round shortens nothing.
        """
        state = _Agreement(limit)
        while True:
            length = self._one_round(state, hashes)
            done = self._one_pass or length >= state.length
            state.length = min(state.length, length)
            if done:
                return self._agreed(state)

    def _one_round(self, state: _Agreement, hashes: Sequence[int]) -> int:
        length = state.length
        for index, group in enumerate(self._spec_groups):
            if group.manager.is_full_attention and index in state.blocks:
                length = min(length, state.full_length)
                continue
            drop = group.use_eagle and index not in state.eagle_dropped
            found, new_length = group.manager.find_longest_cache_hit(
                hashes, group.group_ids, self._range(group, length, state.limit, drop)
            )
            if drop:
                state.eagle_dropped.add(index)
            elif new_length < length:
                state.eagle_dropped.clear()
            length = new_length
            state.blocks[index] = found
            if group.manager.is_full_attention:
                state.full_length = length
            state.longest = max(state.longest, length)
        return length

    def _range(self, group: _SpecGroup, length: int, limit: int, drop: bool) -> LookupRange:
        """Eagle looks one unit past ``length`` and drops it; mamba neither looks further nor drops."""
        manager = group.manager
        if drop and self._num_groups > 1 and not isinstance(manager.spec, MambaSpec):
            fine = self._fine_grained and manager.supports_fine_grained_hits
            length = min(length + (self._hash_block_size if fine else manager.block_size), limit)
        return LookupRange(length, self._alignment, drop)

    def _agreed(self, state: _Agreement) -> PrefixHit:
        blocks: list[Sequence[KVCacheBlock]] = [()] * self._num_groups
        for index, group in enumerate(self._spec_groups):
            for group_id, found in zip(group.group_ids, state.blocks[index], strict=True):
                if group is self._full:
                    del found[ceil_div(state.length, group.manager.block_size) :]
                blocks[group_id] = found
        junction = state.longest if self._num_groups > 1 and state.longest > state.length else 0
        return PrefixHit(tuple(blocks), state.length, junction)

    def find_per_group(
        self, hashes: Sequence[int], limit: int
    ) -> tuple[tuple[Sequence[KVCacheBlock], ...], list[int]]:
        """(blocks, hit length) of every group by itself, not agreed on (S-136)."""
        blocks: list[Sequence[KVCacheBlock]] = [()] * self._num_groups
        lengths = [0] * self._num_groups
        for group in self._spec_groups:
            within = LookupRange(limit, self._alignment, group.use_eagle)
            found, length = group.manager.find_longest_cache_hit(hashes, group.group_ids, within)
            for group_id, held in zip(group.group_ids, found, strict=True):
                blocks[group_id], lengths[group_id] = held, length
        return tuple(blocks), lengths
