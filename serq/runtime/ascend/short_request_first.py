"""The ShortRequestFirst waiting queue: immediate, short and long lanes (V-001 to V-018)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from serq.runtime.vllm.config import Policy
from serq.runtime.vllm.request import Request, RequestStatus
from serq.runtime.vllm.request_queue import RequestQueue, create_request_queue
from serq.runtime.vllm.scheduler import VllmScheduler

Lane = Literal["immediate", "short", "long"]
LANES: tuple[Lane, ...] = ("immediate", "short", "long")
STREAK_WORTH_A_WARNING = 3


@dataclass(frozen=True, slots=True)
class ShortRequestFirstConfig:
    """``threshold`` prompt tokens still count as short; ``long_max_wait_ms`` 0 turns aging off (V-002).

    ``head_hides_age``: like upstream, only the head of the long lane ages (V-007); False lets the lane be as
    old as the oldest request in it.
    """

    threshold: int = 256
    long_max_wait_ms: float = 0.0
    head_hides_age: bool = True

    def __post_init__(self) -> None:
        if self.threshold < 0:
            raise ValueError(
                f"short_request_first_config.threshold must be a non-negative int; got {self.threshold}"
            )
        if self.long_max_wait_ms < 0:
            raise ValueError(
                "short_request_first_config.long_max_wait_ms must be a non-negative number; "
                f"got {self.long_max_wait_ms}"
            )


@dataclass(slots=True)
class LaneCounters:
    """What the lanes did (V-011): no decision reads it.

    ``aged_promotions`` pops of a long request while short ones waited; ``streak`` of them in a row;
    ``warned_at`` the instants, in seconds, at which a streak was long enough for a warning.
    """

    dispatches: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(LANES, 0))
    prepends: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(LANES, 0))
    aged_promotions: int = 0
    streak: int = 0
    warned_at: list[float] = field(default_factory=list)


def is_recovery_request(request: Request) -> bool:
    """Whether the request was started before: preempted, or with computed or output tokens (V-012)."""
    if request.status is RequestStatus.PREEMPTED:
        return True
    return request.num_computed_tokens > 0 or request.num_output_tokens > 0


class ShortRequestFirstRequestQueue(RequestQueue):
    """Immediate requests first, then a long head that has waited long enough, then short, then long (V-004).

    ``clock`` tells the time in seconds. Only the head of the long lane ages, in float milliseconds (V-005);
    it is stamped when it enters the lane and a stamp is lost with every pop and removal (V-006), so a long
    request put in front starts at 0 and hides the age of those behind it (V-007).
    """

    def __init__(
        self,
        config: ShortRequestFirstConfig,
        clock: Callable[[], float],
        *,
        policy: Policy = "fcfs",
        is_immediate: Callable[[Request], bool] = is_recovery_request,
    ) -> None:
        self._config = config
        self._clock = clock
        self._is_immediate = is_immediate
        self._lanes: dict[Lane, RequestQueue] = {lane: create_request_queue(policy) for lane in LANES}
        self._lane_of: dict[str, Lane] = {}
        self._long_since: dict[str, float] = {}
        self._pin: tuple[Lane, str] | None = None
        self.counters = LaneCounters()

    def add_request(self, request: Request) -> None:
        """Join the tail of the request's lane."""
        self._lanes[self._enter(request)].add_request(request)

    def prepend_request(self, request: Request) -> None:
        """Join the head of the lane that the request belongs to now (V-009)."""
        lane = self._enter(request)
        self.counters.prepends[lane] += 1
        self._lanes[lane].prepend_request(request)

    def prepend_requests(self, requests: Sequence[Request]) -> None:
        """Join the heads of their lanes; within a lane the order given is kept."""
        for request in reversed(requests):
            self.prepend_request(request)

    def peek_request(self) -> Request:
        """The next request; its lane stays chosen until it is popped or the queue changes (V-008)."""
        lane = self._choose()
        request = self._lanes[lane].peek_request()
        self._pin = (lane, request.request_id)
        return request

    def pop_request(self) -> Request:
        """Take out the next request, or the one that was peeked."""
        lane = self._choose()
        aged = lane == "long" and self._long_head_is_aged()
        request = self._lanes[lane].pop_request()
        self._leave(request)
        self._count_pop(lane, aged)
        return request

    def remove_request(self, request: Request) -> None:
        """Take out one request. Raises ValueError when it is not here (V-010); the pin is lost even then."""
        self._pin = None
        if request not in self:
            raise ValueError(f"request {request.request_id} is not in this queue")
        self.remove_requests((request,))

    def remove_requests(self, requests: Collection[Request]) -> None:
        """Take out those of ``requests`` that are here."""
        here = [request for request in requests if request in self]
        for lane in LANES:
            leaving = [request for request in here if self._lane_of[request.request_id] == lane]
            if leaving:
                self._lanes[lane].remove_requests(leaving)
        for request in here:
            self._leave(request)
        self._pin = None

    def lane_of(self, request: Request) -> str:
        """`immediate`, `short` or `long`."""
        return self._lane_of[request.request_id]

    def lane(self, lane: Lane) -> Iterator[Request]:
        """The requests of one lane, in order."""
        return iter(self._lanes[lane])

    @property
    def next_lane(self) -> Lane:
        """The lane that would be served now, were nothing pinned. Raises IndexError when all are empty."""
        return self._select()

    @property
    def long_head_wait_ms(self) -> float | None:
        """How long the head of the long lane has waited in it; None without one or without aging (V-005)."""
        if self._config.long_max_wait_ms <= 0 or not self._lanes["long"]:
            return None
        if not self._config.head_hides_age:
            return (self._clock() - min(self._long_since.values())) * 1000
        return self._waited_ms(self._lanes["long"].peek_request())

    @property
    def pinned(self) -> str | None:
        """The id of the request whose lane is pinned."""
        return None if self._pin is None else self._pin[1]

    def __len__(self) -> int:
        return len(self._lane_of)

    def __contains__(self, request: object) -> bool:
        return getattr(request, "request_id", None) in self._lane_of

    def __iter__(self) -> Iterator[Request]:
        """Lane after lane; not the order of service when a long head is aged (V-010)."""
        for lane in LANES:
            yield from self._lanes[lane]

    def _enter(self, request: Request) -> Lane:
        lane = self._classify(request)
        self._lane_of[request.request_id] = lane
        if lane == "long":
            self._long_since.setdefault(request.request_id, self._clock())
        self._pin = None
        return lane

    def _leave(self, request: Request) -> None:
        del self._lane_of[request.request_id]
        self._long_since.pop(request.request_id, None)
        self._pin = None

    def _classify(self, request: Request) -> Lane:
        if self._is_immediate(request):
            return "immediate"
        return "short" if request.num_prompt_tokens <= self._config.threshold else "long"

    def _choose(self) -> Lane:
        """The pinned lane while its head is still the pinned request, else the lane selected now (V-008)."""
        if self._pin is not None:
            lane, request_id = self._pin
            if self._lanes[lane] and self._lanes[lane].peek_request().request_id == request_id:
                return lane
            self._pin = None
        return self._select()

    def _select(self) -> Lane:
        lanes = self._lanes
        if lanes["immediate"]:
            return "immediate"
        if lanes["short"]:
            return "long" if lanes["long"] and self._long_head_is_aged() else "short"
        if lanes["long"]:
            return "long"
        raise IndexError("no request waits in any lane")

    def _waited_ms(self, request: Request) -> float:
        return (self._clock() - self._long_since[request.request_id]) * 1000

    def _long_head_is_aged(self) -> bool:
        waited = self.long_head_wait_ms
        return waited is not None and waited >= self._config.long_max_wait_ms

    def _count_pop(self, lane: Lane, aged: bool) -> None:
        """Count a pop after it was done, so that "shorts wait" speaks of those left (V-011)."""
        counters = self.counters
        counters.dispatches[lane] += 1
        shorts_wait = bool(self._lanes["short"])
        if aged and shorts_wait:
            counters.aged_promotions += 1
            counters.streak += 1
            if counters.streak >= STREAK_WORTH_A_WARNING:
                counters.warned_at.append(self._clock())
        elif lane == "short" or not shorts_wait:
            counters.streak = 0


def install_short_request_first(
    scheduler: VllmScheduler, config: ShortRequestFirstConfig, clock: Callable[[], float]
) -> None:
    """Let ``scheduler`` wait in lanes; requests set aside keep their plain queue (V-012, V-016).

    Raises ValueError unless the policy is FCFS and RuntimeError when somebody waits already. A scheduler that
    has lanes keeps them.
    """
    if isinstance(scheduler.waiting, ShortRequestFirstRequestQueue):
        return
    if scheduler.config.policy != "fcfs":
        raise ValueError("short-request-first lanes need the FCFS policy")
    if len(scheduler.waiting):
        raise RuntimeError("short-request-first lanes can only be installed while nobody waits")
    scheduler.waiting = ShortRequestFirstRequestQueue(config, clock)
