"""The two memories of a hybrid model over time: blocks of keys and values, and blocks of recurrent states."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.kv_cache_spec import MambaSpec


@dataclass(slots=True)
class MemoryRow:
    """Blocks of one pool by what is in them, over [warm-up, end]: time-weighted means, and the most at once.

    ``state_blocks`` hold the recurrent states of mamba groups, ``kv_blocks`` what all other groups hold, of
    ``usable`` blocks.
    """

    usable: int
    mean_kv_blocks: float
    most_kv_blocks: int
    mean_state_blocks: float
    most_state_blocks: int


class HybridMemory:
    """Counts the blocks of an engine whose groups are not all attention (S-110 to S-114)."""

    def __init__(self, manager: KVCacheManager) -> None:
        self._pool = manager.block_pool
        self._states = [group for group in manager.managers if isinstance(group.spec, MambaSpec)]
        self._kv_time = self._state_time = self._span = 0.0
        self._most_kv = self._most_states = 0

    def account(self, elapsed: float) -> None:
        """Nothing has changed for a time of ``elapsed``; asked before every change."""
        states = self._state_blocks()
        kv = self._pool.num_gpu_blocks - 1 - self._pool.num_free_blocks - states
        self._span += elapsed
        self._kv_time += kv * elapsed
        self._state_time += states * elapsed
        self._most_kv, self._most_states = max(self._most_kv, kv), max(self._most_states, states)

    def _state_blocks(self) -> int:
        """Blocks with states that requests hold; a state that several of them began with counts once."""
        return len(
            {
                block.block_id
                for group in self._states
                for table in group.block_tables.values()
                for block in table
                if not block.is_null
            }
        )

    def reset(self) -> None:
        """Forget what warm-up measured (R-B-091)."""
        self._kv_time = self._state_time = self._span = 0.0
        self._most_kv = self._most_states = 0

    def row(self) -> MemoryRow:
        """The figures since warm-up."""
        span = self._span or nan
        return MemoryRow(
            usable=self._pool.num_gpu_blocks - 1,
            mean_kv_blocks=self._kv_time / span,
            most_kv_blocks=self._most_kv,
            mean_state_blocks=self._state_time / span,
            most_state_blocks=self._most_states,
        )


def hybrid_memory(manager: KVCacheManager) -> HybridMemory | None:
    """The accounts of an engine with recurrent states; None: all its blocks are keys and values."""
    has_states = any(isinstance(group.spec, MambaSpec) for group in manager.managers)
    return HybridMemory(manager) if has_states else None
