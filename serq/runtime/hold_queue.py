"""Waiting lines of holds in front of a pool: who is tried next (R-A-052, R-A-063 to R-A-066).

Preempted holds stand in front of everybody, the last victim first, whatever the keys say (R-A-076). Behind
them stand the others in the order of joining, or by keys. Keys that can change while a hold waits are read
again at every selection; keys that cannot are read once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from serq.runtime.hold import Hold
from serq.runtime.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

Key = tuple[int, ...]
KeyFunction = Callable[[Session, Hold], Key]


class HoldQueue:
    """First come, first served."""

    def __init__(self) -> None:
        self._preempted: deque[Hold] = deque()
        self._waiting: deque[Hold] = deque()
        self._joined = 0

    def __len__(self) -> int:
        return len(self._preempted) + len(self._waiting)

    def join(self, hold: Hold) -> None:
        """Stand at the back."""
        self._joined += 1
        hold.order = self._joined
        self._waiting.append(hold)

    def rejoin(self, hold: Hold) -> None:
        """Stand in front of everybody: the hold was preempted."""
        self._preempted.appendleft(hold)

    def head(self) -> Hold:
        """The hold that is tried next; the line must not be empty."""
        return self._preempted[0] if self._preempted else self._select()

    def may_lead(self, hold: Hold) -> bool:
        """Whether ``hold``, which stands in the line, may be tried first."""
        return self.head() is hold

    def _select(self) -> Hold:
        return self._waiting[0]

    def remove(self, hold: Hold) -> None:
        """Take ``hold`` out of the line."""
        if self._preempted and hold in self._preempted:
            self._preempted.remove(hold)
        else:
            self._remove_waiting(hold)

    def _remove_waiting(self, hold: Hold) -> None:
        if self._waiting[0] is hold:
            self._waiting.popleft()
        else:
            self._waiting.remove(hold)

    def withdraw(self, session: Session) -> None:
        """Forget ``session``: a hold around the one that waits here was preempted."""
        hold = session.waiting_hold
        if hold is not None:
            session.waiting_hold = None
            self.remove(hold)

    def holds(self) -> Iterable[Hold]:
        """Everybody in line, preempted holds first, others by joining."""
        yield from self._preempted
        yield from self._waiting


class ChangingKeyQueue(HoldQueue):
    """`queue by` keys that read the clock or live state: all are read again at every selection (R-A-063)."""

    def __init__(self, key: KeyFunction) -> None:
        super().__init__()
        self._key = key

    def may_lead(self, hold: Hold) -> bool:
        """Whether ``hold`` may be tried first: by then keys may have changed."""
        return True

    def _select(self) -> Hold:
        key = self._key
        return min(self._waiting, key=lambda hold: key(hold.session, hold))


class FixedKeyQueue(HoldQueue):
    """`queue by` keys that read only attributes: a session that waits does not change them."""

    def __init__(self, key: KeyFunction) -> None:
        super().__init__()
        self._key = key
        self._heap: list[tuple[Key, int, Hold]] = []
        self._left: set[int] = set()

    def __len__(self) -> int:
        return len(self._preempted) + len(self._heap) - len(self._left)

    def join(self, hold: Hold) -> None:
        """Stand where the key says."""
        self._joined += 1
        hold.order = self._joined
        heappush(self._heap, (self._key(hold.session, hold), hold.order, hold))

    def _select(self) -> Hold:
        while self._heap[0][1] in self._left:
            self._left.remove(heappop(self._heap)[1])
        return self._heap[0][2]

    def _remove_waiting(self, hold: Hold) -> None:
        if self._heap[0][2] is hold:
            heappop(self._heap)
        else:
            self._left.add(hold.order)

    def holds(self) -> Iterable[Hold]:
        """Everybody in line, preempted holds first, others by key."""
        yield from self._preempted
        yield from (hold for _, order, hold in sorted(self._heap) if order not in self._left)
