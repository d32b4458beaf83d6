"""The blocks of an engine as extents: who holds them, what they cache, in which order they are reused.

An extent is a stretch of published blocks of one run. It is split where somebody takes or loses a part of
it, and is free when nobody holds it; the free list is a list of extents, each of which is reused from its end
(a request frees its last block first, S-092). Blocks that cache nothing always stand before all others, so
that a number stands for them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from operator import attrgetter

from serq.errors import RunError
from serq.runtime.vllm.block_pool import BlockPool
from serq.runtime.vllm.extents.chains import Chain, Run

_BY_START = attrgetter("lo")


class Extent:
    """Blocks ``lo`` to ``hi - 1`` of ``run``; ``holders`` are the tables that reference all of them.

    ``is_copy``: each of them was published after another block of the same prefix (S-073).
    """

    __slots__ = ("after", "before", "hi", "holders", "is_copy", "lo", "run")

    def __init__(self, run: Run, lo: int, hi: int) -> None:
        self.run = run
        self.lo = lo
        self.hi = hi
        self.holders: list[BlockTable] = []
        self.is_copy = False
        self.before = self
        self.after = self


Stretch = tuple[Extent, int]
"""The blocks of an extent up to one that is not among them: an extent may reach further than a hit."""


class BlockTable:
    """The blocks of one request: ``published`` ones, as extents in order, then others up to ``held``."""

    __slots__ = ("extents", "held", "published")

    def __init__(self) -> None:
        self.extents: list[Extent] = []
        self.published = 0
        self.held = 0


class ExtentPool(BlockPool):
    """What a :class:`BlockPool` of one group is, without ids."""

    def __init__(self, num_gpu_blocks: int, *, enable_caching: bool) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.enable_caching = enable_caching
        self._num_free = num_gpu_blocks - 1
        self._uncached = num_gpu_blocks - 1
        self._list = Extent(Run(), 0, 0)
        self._index: dict[Run, list[Extent]] = {}
        self._copies: dict[Run, list[Extent]] = {}

    @property
    def num_free_blocks(self) -> int:
        """Blocks nobody references; some of them may still cache a prefix."""
        return self._num_free

    @property
    def usage(self) -> float:
        """Share of the usable blocks that are referenced, 0 to 1."""
        usable = self.num_gpu_blocks - 1
        return 1.0 - self._num_free / usable if usable else 0.0

    # ---- lookup ---------------------------------------------------------------

    def find(self, chain: Chain, limit: int) -> tuple[list[Stretch], int]:
        """What caches the longest prefix of at most ``limit`` blocks, and its length (S-073)."""
        found: list[Stretch] = []
        length = 0
        index = self._index
        for run, end in zip(chain.runs, chain.ends, strict=True):
            cached = index.get(run)
            if cached is None or length >= limit:
                break
            blocks = min(end, limit) - length
            place = 0
            for extent in cached:
                if extent.lo > place or place >= blocks:
                    break
                place = min(extent.hi, blocks)
                found.append((extent, place))
            if place < blocks:
                return found, length + place
            length += blocks
        return found, length

    # ---- taking and giving back -------------------------------------------------

    def take(self, count: int) -> None:
        """Take ``count`` blocks from the head of the free list; what they cached is lost (S-092)."""
        if count > self._num_free:
            free = self._num_free
            raise RunError(f"{count} KV cache blocks are wanted and {free} are free: vLLM stops here")
        self._num_free -= count
        if count <= self._uncached:
            self._uncached -= count
            return
        count -= self._uncached
        self._uncached = 0
        while count:
            first = self._list.after
            length = first.hi - first.lo
            if length > count:
                self._shorten(first, count)
                return
            self._evict(first)
            count -= length

    def take_hit(self, table: BlockTable, hit: Sequence[Stretch]) -> None:
        """Start ``table`` with a hit, taken out of the free list if need be (S-094)."""
        for extent, end in hit:
            if extent.hi > end:
                self._split(extent, end)
            blocks = end - extent.lo
            if not extent.holders:
                self._unlink(extent)
                self._num_free -= blocks
            extent.holders.append(table)
            table.extents.append(extent)
            table.held += blocks
        table.published = table.held

    def release(self, table: BlockTable) -> None:
        """Let go of all blocks of a table, the last one first (S-092)."""
        private = table.held - table.published
        self._uncached += private
        freed = private
        last = self._list
        for extent in reversed(table.extents):
            holders = extent.holders
            holders.remove(table)
            if not holders:
                freed += extent.hi - extent.lo
                tail = last.before
                tail.after = last.before = extent
                extent.before, extent.after = tail, last
        self._num_free += freed

    # ---- publication ------------------------------------------------------------

    def publish_prefix(self, table: BlockTable, chain: Chain, end: int) -> None:
        """Make the first ``end`` blocks of a table findable (S-080)."""
        runs, ends, first = chain.runs, chain.ends, table.published
        place = bisect_right(ends, first)
        while first < end:
            before, until = ends[place - 1] if place else 0, min(end, ends[place])
            self._publish(table, runs[place], first - before, until - before)
            first = until
            place += 1
        table.published = first

    def _publish(self, table: BlockTable, run: Run, lo: int, hi: int) -> None:
        cached = self._index.get(run)
        if cached is None:
            self._index[run] = [self._held(table, run, lo, hi)]
            return
        last = cached[-1]
        if last.hi == lo:
            holders = last.holders
            if len(holders) == 1 and holders[0] is table:
                last.hi = hi
            else:
                cached.append(self._held(table, run, lo, hi))
            return
        for extent in tuple(cached):
            if extent.hi <= lo:
                continue
            if extent.lo >= hi:
                break
            if extent.lo > lo:
                insort(cached, self._held(table, run, lo, extent.lo), key=_BY_START)
                lo = extent.lo
            until = min(extent.hi, hi)
            copy = self._held(table, run, lo, until)
            copy.is_copy = True
            self._copies.setdefault(run, []).append(copy)
            lo = until
        if lo < hi:
            insort(cached, self._held(table, run, lo, hi), key=_BY_START)

    @staticmethod
    def _held(table: BlockTable, run: Run, lo: int, hi: int) -> Extent:
        extent = Extent(run, lo, hi)
        extent.holders.append(table)
        table.extents.append(extent)
        return extent

    def reset_prefix_cache(self) -> bool:
        """Forget all prefixes; refused, without effect, while any block is referenced (S-141)."""
        if self._num_free != self.num_gpu_blocks - 1:
            return False
        self._uncached = self._num_free
        self._list = Extent(Run(), 0, 0)
        self._index = {}
        self._copies = {}
        return True

    # ---- extents ------------------------------------------------------------------

    @staticmethod
    def _unlink(extent: Extent) -> None:
        extent.before.after = extent.after
        extent.after.before = extent.before
        extent.before = extent.after = extent

    def _split(self, extent: Extent, place: int) -> Extent:
        """Cut an extent in two at ``place``; it keeps the lower part, the upper one is new."""
        run = extent.run
        upper = Extent(run, place, extent.hi)
        extent.hi = place
        upper.is_copy = extent.is_copy
        upper.holders = list(extent.holders)
        for table in extent.holders:
            table.extents.insert(table.extents.index(extent) + 1, upper)
        beside = self._copies[run] if extent.is_copy else self._index[run]
        beside.insert(beside.index(extent) + 1, upper)
        if not extent.holders:
            upper.before, upper.after = extent.before, extent
            extent.before.after = upper
            extent.before = upper
        return upper

    def _shorten(self, extent: Extent, count: int) -> None:
        """Forget what the last ``count`` blocks of a free extent cache."""
        hi = extent.hi
        extent.hi = hi - count
        if self._copies and not extent.is_copy:
            self._promote(extent.run, hi - count, hi)

    def _evict(self, extent: Extent) -> None:
        """Forget what a free extent caches."""
        self._unlink(extent)
        if extent.is_copy:
            self._remove(self._copies, extent)
            return
        if self._copies:
            self._promote(extent.run, extent.lo, extent.hi)
        self._remove(self._index, extent)

    @staticmethod
    def _remove(extents: dict[Run, list[Extent]], extent: Extent) -> None:
        """Take ``extent`` out of those of its run."""
        beside = extents[extent.run]
        if len(beside) > 1:
            beside.remove(extent)
        else:
            del extents[extent.run]

    def _promote(self, run: Run, lo: int, hi: int) -> None:
        """Let copies of the blocks ``lo`` to ``hi - 1`` be found, those published first before others."""
        for copy in self._copies.get(run, ()):
            start, end = max(lo, copy.lo), min(hi, copy.hi)
            if start >= end:
                continue
            part = self._split(copy, start) if copy.lo < start else copy
            if part.hi > end:
                self._split(part, end)
            self._remove(self._copies, part)
            part.is_copy = False
            insort(self._index[run], part, key=_BY_START)
            if lo < start:
                self._promote(run, lo, start)
            if end < hi:
                self._promote(run, end, hi)
            return
