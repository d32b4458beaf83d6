"""Waiting queues that a program asks for by `waiting by (keys)`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from serq.runtime.vllm.request import Request
from serq.runtime.vllm.request_queue import RequestQueue

Key = Callable[[Request], tuple[float, ...]]


class KeyedRequestQueue(RequestQueue):
    """The request with the smallest keys first; keys are read anew at each selection, ties go by arrival.

    Requests that were put in front, preempted ones, come before all others in the order of FCFS. What was
    peeked stays chosen until it is popped or the queue changes.
    """

    def __init__(self, key: Key) -> None:
        self._key = key
        self._front: deque[Request] = deque()
        self._others: dict[Request, None] = {}
        self._peeked: Request | None = None

    def add_request(self, request: Request) -> None:
        """Join those whom the keys order."""
        self._peeked = None
        self._others[request] = None

    def prepend_request(self, request: Request) -> None:
        """Join the head."""
        self._peeked = None
        self._front.appendleft(request)

    def prepend_requests(self, requests: Sequence[Request]) -> None:
        """Join the head, in the order given."""
        self._peeked = None
        self._front.extendleft(reversed(requests))

    def peek_request(self) -> Request:
        """The head of those in front, else the smallest keys now."""
        if self._peeked is None:
            if not self._front and not self._others:
                raise IndexError("no request waits")
            self._peeked = self._front[0] if self._front else min(self._others, key=self._key)
        return self._peeked

    def pop_request(self) -> Request:
        """Take out the request that was peeked."""
        request = self.peek_request()
        self._peeked = None
        if self._front:
            return self._front.popleft()
        del self._others[request]
        return request

    def remove_requests(self, requests: Collection[Request]) -> None:
        """Take out those of ``requests`` that are here."""
        self._peeked = None
        gone = set(requests)
        self._front = deque(request for request in self._front if request not in gone)
        for request in gone:
            self._others.pop(request, None)

    def lane_of(self, request: Request) -> str:
        """`in front`, where preempted requests wait, or `by keys`."""
        return "by keys" if request in self._others else "in front"

    def __len__(self) -> int:
        return len(self._front) + len(self._others)

    def __iter__(self) -> Iterator[Request]:
        """Those in front, then the others by their keys now."""
        yield from self._front
        yield from sorted(self._others, key=self._key)
