"""Blocks that cache prefixes, for the engine of an open run."""

from __future__ import annotations

from serq.runtime.open_run.prompts import PromptChains
from serq.runtime.open_run.request import OpenRequest
from serq.runtime.vllm.extents.pool import BlockTable, ExtentPool, Stretch


class CachedBlocks:
    """The pool of extents of one engine, and what requests hold of it (S-073, S-080, S-092).

    What steps take and publish is told to the pool when somebody looks at it, or gives something back: taking
    reuses the first that are free, publishing concerns those that are held, so that neither moves the other.
    """

    def __init__(self, pool: ExtentPool, block_size: int, prompts: PromptChains) -> None:
        self.pool = pool
        self.prompts = prompts
        self._size = block_size
        self._taken = 0
        """Blocks that the pool does not know to be taken."""
        self._computing: OpenRequest | None = None
        """Whose blocks it does not know to be published."""

    def find(self, request: OpenRequest) -> tuple[list[Stretch], int]:
        """What of ``request`` is cached, and how many blocks: at most all but its last token."""
        self._settle()
        return self.pool.find(request.chain, (request.num_tokens - 1) // self._size)

    @staticmethod
    def evictable(found: list[Stretch]) -> int:
        """How many of the blocks ``found`` are free, and will not be when they are taken."""
        return sum([end - extent.lo for extent, end in found if not extent.holders])

    def admit(self, request: OpenRequest, found: list[Stretch], blocks: int) -> None:
        """Give ``request`` what was ``found``, and ``blocks`` more."""
        table = request.table = BlockTable()
        if found:
            self.pool.take_hit(table, found)
        self.pool.take(blocks)

    def take(self, blocks: int) -> None:
        """A step takes that many blocks for requests that run."""
        self._taken += blocks

    def publish(self, request: OpenRequest) -> None:
        """Let the whole blocks among the tokens of ``request`` that are computed be found (S-080)."""
        if self._computing is not request:
            self._publish()
            self._computing = request

    def release(self, request: OpenRequest, held: int, known: int) -> None:
        """Let go of the ``held`` blocks of ``request``, the last first; ``known`` tokens stay findable.

        They were taken from the pool step by step. Nobody can have looked for those with outputs before: a
        prompt quotes the outputs of a request that has ended.
        """
        self._settle()
        table = request.table
        table.held = held
        self.pool.publish_prefix(table, request.chain, known // self._size)
        self.pool.release(table)
        request.table = None

    def _settle(self) -> None:
        """Tell the pool what it does not know."""
        if self._taken:
            self.pool.take(self._taken)
            self._taken = 0
        self._publish()

    def _publish(self) -> None:
        request = self._computing
        if request is not None:
            self.pool.publish_prefix(request.table, request.chain, request.computed // self._size)
            self._computing = None
