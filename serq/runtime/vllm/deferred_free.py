"""Blocks that a step in flight may still write to come back only when it is processed (S-106)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from serq.runtime.vllm.block_pool import KVCacheBlock
from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.request import Request


class BlockFreer:
    """Frees blocks at once, or, if ``defers``, when the steps that may write them have been processed.

    ``scheduled`` and ``processed`` count non-empty steps.
    """

    def __init__(self, manager: KVCacheManager, *, defers: bool) -> None:
        self._manager = manager
        self._defers = defers
        self._waiting: deque[tuple[int, list[KVCacheBlock]]] = deque()
        self.scheduled = 0
        self.processed = 0

    def step_scheduled(self) -> None:
        """A non-empty step was formed."""
        self.scheduled += 1

    def step_processed(self) -> None:
        """The output of the oldest non-empty step is in; return what waited for it."""
        self.processed += 1
        while self._waiting and self._waiting[0][0] <= self.processed:
            _, blocks = self._waiting.popleft()
            self._manager.block_pool.free_blocks(reversed(blocks))

    def free_request(self, request: Request) -> None:
        """Free the blocks of ``request``, after the newest step if its own last step is in flight."""
        if not self._defers or request.last_sched_seq <= self.processed:
            self._manager.free(request)
            return
        blocks = self._manager.pop_blocks(request)
        if blocks:
            self._waiting.append((self.scheduled, blocks))

    def free_copies(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Drop the references that held both ends of the copies of the step now being formed (S-129)."""
        if self._defers:
            self._waiting.append((self.scheduled + 1, list(reversed(blocks))))
        else:
            self._manager.block_pool.free_blocks(blocks)
