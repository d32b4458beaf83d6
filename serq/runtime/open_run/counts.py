"""Requests that decode, as counts: what the next step takes is known without looking at any of them.

Steps with tokens are numbered from 0 in the order of forming. A request joins with the step that completes
its prompt and gets a share of every step after it, up to the one that brings its last token. With a step in
flight it may get one more, whose output is ignored, where its length alone does not tell that end (S-103b).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from serq.runtime.open_run.request import OpenRequest

NEVER: Final = 1 << 60
"""The number of a step that is not formed."""


class DecodeCounts:
    """``count`` requests get a share of the next step; they hold ``held`` blocks of ``size`` tokens.

    Before step number i, ``base + count * i`` tokens of theirs are computed.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.formed = 0
        """Steps formed: the number of the next one."""
        self.count = self.base = self.held = 0
        self.full_at = [0] * size
        """How many of them need a block in step number i, at the remainder of -i."""
        self.ending: dict[int, list[OpenRequest]] = {}
        """Who gets the last token with which step."""
        self.next_end = NEVER
        """The first of these steps."""
        self.compositions = 0
        """How often the counted have changed."""
        self.overrun: dict[int, list[OpenRequest]] = {}
        """Who gets the last share, which brings nothing, with which step."""
        self._ends: list[int] = []

    def join(self, request: OpenRequest, number: int) -> None:
        """The prompt of ``request`` is complete with step ``number``, which brings it a token."""
        before = request.before = request.num_output_tokens
        left = request.outputs - before - 1
        last = number + left
        leaves = request.leaves = last + request.overruns
        offset = request.num_tokens - number - 1
        request.joined, request.last, request.offset = number, last, offset
        if leaves > number:
            self.compositions += 1
            self.count += 1
            self.base += offset
            self.held += request.held
            self.full_at[offset % self.size] += 1
        ending = self.ending.get(last)
        if ending is None:
            self.ending[last] = [request]
            heappush(self._ends, last)
            self.next_end = self._ends[0]
        else:
            ending.append(request)
        if request.overruns:
            self.overrun.setdefault(leaves, []).append(request)

    def uncount_ending(self, number: int) -> None:
        """Those who had their last share with step ``number``, which was formed, are not counted any more."""
        size = self.size
        for request in self.ending.get(number, ()):
            if request.leaves == number:
                self._uncount(request, -(-(request.offset + number + 1) // size))
        for request in self.overrun.pop(number, ()):
            self._uncount(request, -(-(request.offset + number + 1) // size))

    def _uncount(self, request: OpenRequest, held: int) -> None:
        offset = request.offset
        self.compositions += 1
        self.count -= 1
        self.base -= offset
        self.held -= held
        self.full_at[offset % self.size] -= 1

    def withdraw(self, request: OpenRequest, number: int) -> int:
        """Take ``request`` out before it gets a share of step ``number``; the tokens it has computed.

        It may have had the last one, and wait for what that brings.
        """
        computed = request.offset + number
        if request.leaves >= number:
            self._uncount(request, -(-computed // self.size))
            if request.overruns:
                self.overrun[request.leaves].remove(request)
        ending = self.ending[request.last]
        ending.remove(request)
        if not ending:
            del self.ending[request.last]
            self._find_next_end()
        return computed

    def pop_ending(self, number: int) -> list[OpenRequest]:
        """Those who end with step ``number``, which has ended."""
        ending = self.ending.pop(number)
        self._find_next_end()
        return ending

    def _find_next_end(self) -> None:
        ends, ending = self._ends, self.ending
        while ends and ends[0] not in ending:
            heappop(ends)
        self.next_end = ends[0] if ends else NEVER
