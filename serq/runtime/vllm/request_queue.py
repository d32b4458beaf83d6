"""The order in which requests wait (S-010, S-011). Other orders replace these behind the same methods."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterator, Sequence

from serq.runtime.vllm.config import Policy
from serq.runtime.vllm.request import Request, Time


class RequestQueue(ABC):
    """Waiting requests in the order they would be admitted.

    The truth value says "something may be admitted now", the length counts everybody: a queue may hold
    requests back. ``pop_request`` takes exactly the request that ``peek_request`` showed.
    """

    @abstractmethod
    def add_request(self, request: Request) -> None:
        """Take in a new request."""

    @abstractmethod
    def prepend_request(self, request: Request) -> None:
        """Take back a request that should be served early: a preempted one."""

    @abstractmethod
    def prepend_requests(self, requests: Sequence[Request]) -> None:
        """Take back ``requests`` before everybody here, the first of them first."""

    @abstractmethod
    def peek_request(self) -> Request:
        """The request to try next. Raises IndexError if there is none."""

    @abstractmethod
    def pop_request(self) -> Request:
        """Take out the request to try next. Raises IndexError if there is none."""

    @abstractmethod
    def remove_requests(self, requests: Collection[Request]) -> None:
        """Take out those of ``requests`` that are here."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Request]: ...

    def __bool__(self) -> bool:
        return len(self) > 0

    def lane_of(self, request: Request) -> str:
        """Which part of this queue ``request``, which is here, waits in; a plain queue has one."""
        return "waiting"

    def begin_step(self, now: Time) -> None:  # noqa: B027 - most queues do not age
        """A step is about to be formed at ``now``; a queue that ages its requests takes note."""


class FCFSRequestQueue(RequestQueue):
    """First come, first served: arrivals at the tail, preempted requests at the head (S-010)."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def add_request(self, request: Request) -> None:
        """Join the tail."""
        self._requests.append(request)

    def prepend_request(self, request: Request) -> None:
        """Join the head."""
        self._requests.appendleft(request)

    def prepend_requests(self, requests: Sequence[Request]) -> None:
        """Join the head, in the order given (S-014)."""
        self._requests.extendleft(reversed(requests))

    def peek_request(self) -> Request:
        """The head."""
        return self._requests[0]

    def pop_request(self) -> Request:
        """Take the head."""
        return self._requests.popleft()

    def remove_requests(self, requests: Collection[Request]) -> None:
        """Take out those of ``requests`` that are here, the others keep their order."""
        gone = set(requests)
        self._requests = deque(request for request in self._requests if request not in gone)

    def __len__(self) -> int:
        return len(self._requests)

    def __bool__(self) -> bool:
        return bool(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)


class PriorityRequestQueue(RequestQueue):
    """Smallest (priority, arrival time, id) first; being preempted earns nothing (S-011)."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, Time, str], Request]] = []

    def add_request(self, request: Request) -> None:
        """Join where the order says."""
        heapq.heappush(self._heap, (request.order, request))

    def prepend_request(self, request: Request) -> None:
        """Join where the order says."""
        self.add_request(request)

    def prepend_requests(self, requests: Sequence[Request]) -> None:
        """Join where the order says."""
        for request in requests:
            self.add_request(request)

    def peek_request(self) -> Request:
        """The smallest."""
        return self._heap[0][1]

    def pop_request(self) -> Request:
        """Take the smallest."""
        return heapq.heappop(self._heap)[1]

    def remove_requests(self, requests: Collection[Request]) -> None:
        """Take out those of ``requests`` that are here."""
        gone = set(requests)
        self._heap = [entry for entry in self._heap if entry[1] not in gone]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        return (request for _, request in sorted(self._heap, key=lambda entry: entry[0]))


def create_request_queue(policy: Policy) -> RequestQueue:
    """An empty queue of the policy's kind."""
    return PriorityRequestQueue() if policy == "priority" else FCFSRequestQueue()
