"""Those who wait at an engine of an open run, where their order is not that of arrival."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from serq.runtime.open_run.request import OpenRequest
from serq.runtime.vllm.request import Request
from serq.runtime.vllm.request_queue import RequestQueue


class OrderedWaiting:
    """A queue of the engine on the clock, used as if it were a deque; the clock must show the instant.

    What it sees of a request is what it would see of the engine's own.
    """

    def __init__(self, queue: RequestQueue) -> None:
        self._queue = queue

    def __len__(self) -> int:
        return len(self._queue)

    def __bool__(self) -> bool:
        return bool(self._queue)

    def __iter__(self) -> Iterator[OpenRequest]:
        return cast(Iterator[OpenRequest], iter(self._queue))

    def __getitem__(self, place: int) -> OpenRequest:
        """The one to try next; ``place`` is 0."""
        return cast(OpenRequest, self._queue.peek_request())

    def extend(self, requests: Iterable[OpenRequest]) -> None:
        """New requests come."""
        for request in requests:
            self._queue.add_request(_as_upstream(request))
            request.lane = self._queue.lane_of(_as_upstream(request))

    def appendleft(self, request: OpenRequest) -> None:
        """One who gave way comes back."""
        self._queue.prepend_request(_as_upstream(request))
        request.lane = self._queue.lane_of(_as_upstream(request))

    def popleft(self) -> OpenRequest:
        """Take out the one to try next."""
        return cast(OpenRequest, self._queue.pop_request())

    def remove(self, request: OpenRequest) -> None:
        """Take out ``request``, which has ended."""
        self._queue.remove_requests((_as_upstream(request),))


def _as_upstream(request: Any) -> Request:
    """``request`` has all that a queue reads of one."""
    return cast(Request, request)
