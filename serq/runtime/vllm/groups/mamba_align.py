"""Recurrent state, mode "align": states are kept where shares end, on block boundaries (S-112 to S-114).

The last ``1 + num_speculative_blocks`` entries of a table are the running state and the speculative ones;
what lies before is null, except the state of the share before, which the next share still reads.
"""

from __future__ import annotations

from typing import Any

from serq.runtime.vllm.block_pool import KVCacheBlock
from serq.runtime.vllm.groups.base import Blocks, SlotDemand
from serq.runtime.vllm.groups.mamba import MambaManager
from serq.runtime.vllm.kv_cache_spec import MambaSpec, ceil_div
from serq.runtime.vllm.request import Request


class MambaAlignManager(MambaManager):
    """Block tables of layers that keep a state and cache it at block boundaries."""

    def __init__(self, spec: MambaSpec, **settings: Any) -> None:
        super().__init__(spec, **settings)
        self._started: set[str] = set()
        self._last_state: dict[str, int] = {}
        self._own_tails: dict[str, int] = {}
        self.tail_offloads: list[tuple[str, KVCacheBlock, int]] = []

    def num_blocks_to_allocate(self, demand: SlotDemand, hit: Blocks) -> int:
        """A state and the speculative blocks at first, later at most one block; lookahead is ignored.

        One more where a shared or published tail must be copied first (S-129).
        """
        if self._hits_state_of_this_step(hit):
            return self.pool.num_gpu_blocks + 1
        request_id = demand.request_id
        held = len(self.block_tables.get(request_id, ()))
        missing = self._num_required(demand) - len(hit) - held
        copies = int(self._hits_inside_block(hit, demand.num_local_tokens) or request_id in self.partial_hits)
        needed = missing
        if copies or missing > 0:
            needed = copies + (1 if request_id in self._started else 1 + self.spec.num_speculative_blocks)
        return needed + sum(block.is_evictable for block in hit)

    def _num_required(self, demand: SlotDemand) -> int:
        return ceil_div(demand.num_main_tokens, self.block_size) + self.spec.num_speculative_blocks

    def allocate_new_blocks(self, demand: SlotDemand) -> None:
        """Move the running state on to the block in which the share ends (S-112, S-113)."""
        request_id = demand.request_id
        table = self.block_tables.setdefault(request_id, [])
        required = self._num_required(demand)
        tail = self.partial_hits.pop(request_id, None)
        if required <= len(table) and tail is None:
            return
        started = request_id in self._started
        self._remember_state(request_id, len(table), started)
        self._skip_to_state(table, required, started)
        count = required - len(table)
        blocks = self.pool.get_new_blocks(count if tail is None else max(count, 0) + 1)
        if tail is not None:
            self._copy_tail(request_id, tail, blocks.pop(0), started)
        table.extend(blocks)
        self._started.add(request_id)

    def _remember_state(self, request_id: str, held: int, started: bool) -> None:
        """Note where the state lies that the next share starts from (S-114)."""
        if started:
            self._last_state[request_id] = held - 1 - self.spec.num_speculative_blocks
        elif held:
            self._last_state[request_id] = held - 1

    def _skip_to_state(self, table: list[KVCacheBlock], required: int, started: bool) -> None:
        """Null up to the new state; speculative blocks that fell behind it go to the end."""
        speculative = self.spec.num_speculative_blocks
        held = len(table)
        state = required - speculative - 1
        table.extend([self.pool.null_block] * (state - held))
        if started:
            for index in range(held - speculative, min(held, state)):
                table.append(table[index])
                table[index] = self.pool.null_block

    def _copy_tail(
        self, request_id: str, tail: tuple[int, KVCacheBlock], copy: KVCacheBlock, started: bool
    ) -> None:
        """Order the copy of a tail that is shared, or of the request's own published tail (S-129).

        A request that hit the tail writes on into the copy. A request that published it writes on into
        the source, and the copy is what others find, from the next step on.
        """
        index, source = tail
        if not started:
            self._replace_by_copy(self.block_tables[request_id], index, source, copy)
            return
        self.pool.move_keys(source, copy)
        self.pending_copies.append((source, copy))
        source.ref_cnt += 1
        boundary = self._own_tails.pop(request_id, None)
        if boundary is not None:
            self.tail_offloads.append((request_id, copy, boundary))
        if copy.keys:
            self.cached_this_step.add(copy.keys[0])

    def cache_blocks(self, request: Request, num_tokens: int, retention_interval: int | None) -> None:
        """Publish states, and a tail when a share ends exactly at the prompt's last hash boundary (S-128)."""
        super().cache_blocks(request, num_tokens, retention_interval)
        if num_tokens and num_tokens == self.partial_tail(request):
            self._publish_tail(request, num_tokens)

    def _publish_tail(self, request: Request, boundary: int) -> None:
        request_id = request.request_id
        index = boundary // self.block_size
        table = self.block_tables[request_id]
        if index >= len(table) or table[index].is_null:
            return
        key = request.block_hashes[boundary // self.hash_block_size - 1]
        self.pool.publish(table[index], key, self.group_id, boundary)
        self.cached_this_step.add(key)
        self.partial_hits[request_id] = (index, table[index])
        self.num_cached_blocks[request_id] = index
        self._own_tails[request_id] = boundary

    def remove_skipped_blocks(self, request_id: str, num_processed_tokens: int) -> None:
        """Also free the state before last, once a later one is processed (S-114)."""
        super().remove_skipped_blocks(request_id, num_processed_tokens)
        last = self._last_state.get(request_id)
        if last is not None and last < ceil_div(num_processed_tokens, self.block_size) - 1:
            table = self.block_tables[request_id]
            if not table[last].is_null:
                self.pool.free_blocks([table[last]])
                table[last] = self.pool.null_block

    def pop_blocks(self, request_id: str) -> list[KVCacheBlock]:
        """Forget ``request_id``, its states and its tail."""
        self._started.discard(request_id)
        self._last_state.pop(request_id, None)
        self._own_tails.pop(request_id, None)
        self.tail_offloads = [offload for offload in self.tail_offloads if offload[0] != request_id]
        return super().pop_blocks(request_id)

    def take_tail_offloads(self) -> list[tuple[str, KVCacheBlock, int]]:
        """(request, block, tokens) of own tails copied since the last call, for a connector to store."""
        offloads, self.tail_offloads = self.tail_offloads, []
        return offloads
