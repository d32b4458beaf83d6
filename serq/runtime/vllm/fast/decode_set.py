"""Requests that decode token by token, counted together: a step changes all of them in the same way.

So the set counts steps instead of touching requests. What a request has got by now is the number of steps
since it joined, and is written into it when somebody wants to see it: when it leaves. A step costs the same
however many requests are here; joining and leaving cost a logarithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from math import inf

from serq.runtime.vllm.extents.manager import ExtentKVCacheManager
from serq.runtime.vllm.extents.pool import BlockTable
from serq.runtime.vllm.kv_cache_spec import ceil_div
from serq.runtime.vllm.request import Request
from serq.runtime.vllm.scheduler_output import DecodesInBulk


class Decoding:
    """One request of the set.

    It ends with the step number ``last``. With ``foreseen`` it gets no share beyond that one (S-021); else
    it may get one more, whose output is ignored (S-103b). ``scheduled`` and ``processed`` say up to which
    step the request itself has been told.
    """

    __slots__ = ("foreseen", "gone", "joined", "last", "processed", "request", "scheduled", "table")

    def __init__(self, request: Request, table: BlockTable, last: int, foreseen: bool, step: int) -> None:
        self.request = request
        self.table = table
        self.last = last
        self.foreseen = foreseen
        self.joined = self.scheduled = self.processed = step
        self.gone = False


class DecodeSet:
    """The set, and the steps so far: ``scheduled`` and ``processed`` count all steps formed in bulk.

    ``count`` requests get a share of the next step. Their computed tokens add up to ``base`` and
    ``scheduled`` for each of them, and they hold ``held`` blocks.
    """

    def __init__(self, manager: ExtentKVCacheManager, *, async_scheduling: bool) -> None:
        self._manager = manager
        self._async = async_scheduling
        self._size = manager.block_size
        self.scheduled = 0
        self.processed = 0
        self.count = 0
        self.held = 0
        self.base = 0
        self.members: dict[Request, Decoding] = {}
        self.just_scheduled = False
        """Whether no output was processed since the latest step was formed."""
        self._full_at = [0] * self._size
        """How many of those counted need a block when ``-scheduled`` has this remainder."""
        self._ending: dict[int, list[Decoding]] = {}
        self._ends: list[int] = []

    # ---- membership -------------------------------------------------------------

    def join(self, request: Request, outputs_left: int, *, foreseen: bool) -> None:
        """Let ``request`` decode with the others from the next step on, for ``outputs_left`` steps."""
        table = self._manager.tables[request.request_id]
        last = self.scheduled + outputs_left
        member = Decoding(request, table, last, foreseen, self.scheduled)
        self.members[request] = member
        if last in self._ending:
            self._ending[last].append(member)
        else:
            self._ending[last] = [member]
            heappush(self._ends, last)
        self._count(member, 1)

    def leave(self, request: Request) -> Decoding:
        """Take ``request`` out, told everything."""
        member = self.members.pop(request)
        self.tell(member)
        member.gone = True
        if self._takes_part(member):
            self._count(member, -1)
        return member

    def tell(self, member: Decoding) -> int:
        """Write into a request what the steps so far have done; how many tokens came since it was told."""
        request = member.request
        scheduled = min(self.scheduled, member.last) if member.foreseen else self.scheduled
        processed = max(self.processed, member.processed)
        shares, tokens = scheduled - member.scheduled, processed - member.processed
        member.scheduled, member.processed = scheduled, processed
        if shares:
            request.num_computed_tokens += shares
            member.table.held = ceil_div(request.num_computed_tokens, self._size)
        if shares != tokens:
            request.num_in_flight_tokens += shares - tokens
            if self._async:
                request.num_output_placeholders += shares - tokens
        if tokens:
            request.append_output_tokens(tokens)
        if scheduled > member.joined:
            known = self.just_scheduled and scheduled == self.scheduled
            self._manager.cache_blocks(request, request.num_tokens - (not known))
        return tokens

    def _takes_part(self, member: Decoding) -> bool:
        return not (member.foreseen and member.last <= self.scheduled)

    def _count(self, member: Decoding, sign: int) -> None:
        """Count a request that was told everything, or no longer."""
        if not self._takes_part(member):
            return
        offset = member.request.num_computed_tokens - self.scheduled
        self.count += sign
        self.base += sign * offset
        self.held += sign * member.table.held
        self._full_at[offset % self._size] += sign

    # ---- steps --------------------------------------------------------------------

    @property
    def context(self) -> int:
        """Computed tokens of those who get a share of the next step."""
        return self.base + self.count * self.scheduled

    @property
    def blocks_needed(self) -> int:
        """Blocks that the next step takes."""
        return self._full_at[-self.scheduled % self._size]

    def coming(self, rows: Callable[[], Iterable[Request]]) -> DecodesInBulk:
        """Those who get a share of the next step, if they get their blocks; ``rows`` will list them."""
        return DecodesInBulk(self.count, self.context, (self.held + self.blocks_needed) * self._size, rows)

    def coming_needs(self) -> tuple[int, ...]:
        """Blocks that the next steps take, over and over, if nobody joins or leaves."""
        start = -self.scheduled % self._size
        full_at = self._full_at
        return (*full_at[start::-1], *full_at[:start:-1])

    def needing_blocks(self) -> list[Decoding]:
        """Those who need a block in the next step, in order of admission."""
        found = []
        for member in self.members.values():
            if self._takes_part(member):
                told = self.scheduled - member.scheduled
                if not (member.request.num_computed_tokens + told) % self._size:
                    found.append(member)
        found.sort(key=lambda member: member.request.admission)
        return found

    def count_scheduled(self) -> None:
        """A step was formed in which everybody counted has a share; its blocks were taken."""
        self.held += self.blocks_needed
        self.scheduled += 1
        self.just_scheduled = True
        ending = self._ending.get(self.scheduled)
        if ending is not None:
            self._stop_counting(ending)

    def advance(self, steps: int) -> int:
        """So many steps were processed and as many formed, one after another; the blocks that they took.

        Nobody ends with those that were processed, so at most two ends come among those that were formed.
        """
        taken = 0
        target = self.scheduled + steps
        if self._ends:
            first = self._ends[0]
            for end in (first, first + 1):
                if self.scheduled < end <= target and end in self._ending:
                    taken += self._advance(end - self.scheduled)
                    self._stop_counting(self._ending[end])
        taken += self._advance(target - self.scheduled)
        self.processed += steps
        self.just_scheduled = True
        return taken

    def _advance(self, steps: int) -> int:
        """So many steps were formed, each with all who are counted; the blocks that they took."""
        size, full_at = self._size, self._full_at
        taken = steps // size * self.count
        start = -self.scheduled % size
        for remainder in range(start, start - steps % size, -1):
            taken += full_at[remainder]
        self.held += taken
        self.scheduled += steps
        return taken

    def _stop_counting(self, ending: Iterable[Decoding]) -> None:
        """Those whose last step was just formed get no more shares."""
        for member in ending:
            if member.foreseen and not member.gone:
                computed = member.request.num_computed_tokens + self.scheduled - member.scheduled
                offset = computed - self.scheduled
                self.count -= 1
                self.base -= offset
                self.held -= ceil_div(computed, self._size)
                self._full_at[offset % self._size] -= 1

    def pop_ending(self, step: int) -> list[Decoding]:
        """Those who end with step number ``step``, which is the next to be processed."""
        ends = self._ends
        if not ends or ends[0] > step:
            return []
        while ends and ends[0] <= step:
            heappop(ends)
        return [member for member in self._ending.pop(step, ()) if not member.gone]

    def next_end(self) -> float:
        """The number of the step with which somebody ends first; infinity if the set is empty."""
        ends, ending = self._ends, self._ending
        while ends:
            for member in ending[ends[0]]:
                if not member.gone:
                    return ends[0]
            del ending[heappop(ends)]
        return inf

    def after(self, step: int) -> tuple[int, int, int, int]:
        """Who is left in the step after number ``step``, with which the first end.

        (Decodes, their computed tokens, their blocks with that step, blocks it takes.)
        """
        count, base, taken = self.count, self.base, self._full_at[-step % self._size]
        held = 0
        for member in self._ending[step]:
            if member.foreseen and not member.gone:
                offset = member.request.num_computed_tokens - member.scheduled
                count -= 1
                base -= offset
                held += ceil_div(offset + step, self._size)
                taken -= not (offset + step) % self._size
        return count, base + count * step, held, taken

    # ---- in flight ------------------------------------------------------------------

    def extremes(self, step: int) -> tuple[int, int]:
        """Computed tokens before step number ``step``, the fewest and the most of those with a share in it.

        It is the latest step, or one of those after it with which nobody who ends without notice has ended.
        """
        offsets = [
            member.request.num_computed_tokens - member.scheduled
            for member in self.members.values()
            if member.joined < step and not (member.foreseen and member.last < step)
        ]
        return min(offsets) + step - 1, max(offsets) + step - 1

    def shares_in_flight(self, member: Decoding, steps: Iterable[int]) -> Iterator[tuple[int, int]]:
        """(step, computed tokens before it) of those of ``steps`` in which a told request has a share."""
        for step in steps:
            if member.joined < step <= member.scheduled:
                yield step, member.request.num_computed_tokens - (member.scheduled - step) - 1
