"""Blocks that cache prefixes, for the engine of an open run."""

from __future__ import annotations

from serq.runtime.open_run.prompts import PromptChains
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.vllm.extents.pool import BlockTable, ExtentPool, Stretch


class CachedBlocks:
    """The pool of extents of one engine, and what requests hold of it (S-073, S-080, S-092)."""

    def __init__(self, pool: ExtentPool, block_size: int) -> None:
        self.pool = pool
        self.take = pool.take
        self.chain = PromptChains(block_size).chain
        self._size = block_size

    def find(self, request: OpenRequest) -> tuple[list[Stretch], int]:
        """What of ``request`` is cached, and how many blocks: at most all but its last token."""
        return self.pool.find(request.chain, (request.num_tokens - 1) // self._size)

    @staticmethod
    def evictable(found: list[Stretch]) -> int:
        """How many of the blocks ``found`` are free, and will not be when they are taken."""
        return sum(end - extent.lo for extent, end in found if not extent.holders)

    def admit(self, request: OpenRequest, found: list[Stretch], blocks: int) -> None:
        """Give ``request`` what was ``found``, and ``blocks`` more."""
        table = request.table = BlockTable()
        if found:
            self.pool.take_hit(table, found)
        self.grow(request, blocks)

    def grow(self, request: OpenRequest, blocks: int) -> None:
        """Give ``request`` that many more blocks."""
        if blocks:
            self.pool.take(blocks)
            request.table.held += blocks

    def publish(self, request: OpenRequest, num_tokens: int) -> None:
        """Let the whole blocks among the first ``num_tokens`` tokens be found (S-080)."""
        end, table = num_tokens // self._size, request.table
        if end > table.published:
            self.pool.publish_prefix(table, request.chain, end)

    def release(self, request: OpenRequest, held: int, known: int) -> None:
        """Let go of the ``held`` blocks of ``request``, the last first; ``known`` tokens stay findable.

        They were taken from the pool step by step. Nobody can have looked for those with outputs before: no
        prompt quotes an output.
        """
        request.table.held = held
        self.publish(request, known)
        self.pool.release(request.table)
        request.table = None
