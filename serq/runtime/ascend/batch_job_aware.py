"""The BatchJobAware waiting queue: requests grouped by job, admitted by predicted length (V-024 to V-035)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from serq.runtime.ascend.job_decode import JobDecodeEstimator, TooManyJobsError, job_name
from serq.runtime.vllm.request import Request
from serq.runtime.vllm.request_queue import RequestQueue

COLD_START_REQUESTS = 3


@dataclass(frozen=True, slots=True)
class BatchJobAwareConfig:
    """The options of ``batch_job_sched_config`` (V-020), and two that go beyond upstream.

    ``keeps_removed_peek``: like upstream, a request that was peeked stays the next one even after it was
    removed (V-034); False makes an abort clear it. ``refuses_jobs``: like upstream, one job too many ends the
    engine (V-035); False lets it wait like any other.
    """

    max_jobs: int = 20
    reserve_margin_blocks: int = 2
    reserve_max_blocks: int = 8
    low_available_tokens_threshold: int = 4096
    short_decode_token_threshold: int = 32
    keeps_removed_peek: bool = True
    refuses_jobs: bool = True

    def __post_init__(self) -> None:
        for name in ("max_jobs", "reserve_margin_blocks", "reserve_max_blocks"):
            value = getattr(self, name)
            if value < 0:
                raise ValueError(f"batch_job_sched_config.{name} must not be negative; got {value}")


class JobBucket:
    """The waiting requests of one job, by prompt length and first come first served within one (V-024)."""

    def __init__(self) -> None:
        self._by_length: dict[int, deque[Request]] = {}
        self._lengths: list[int] = []

    def add(self, request: Request) -> None:
        """Join the tail of the requests of the same length."""
        length = request.num_prompt_tokens
        if length not in self._by_length:
            self._by_length[length] = deque()
            insort(self._lengths, length)
        self._by_length[length].append(request)

    def remove(self, request: Request) -> None:
        """Take out a request that is here."""
        length = request.num_prompt_tokens
        self._by_length[length].remove(request)
        if not self._by_length[length]:
            del self._by_length[length]
            self._lengths.remove(length)

    def best_fit(self, budget_tokens: int) -> Request:
        """The longest prompt within the budget, or the shortest of all when none is (V-031)."""
        fitting = bisect_right(self._lengths, budget_tokens)
        length = self._lengths[fitting - 1] if fitting else self._lengths[0]
        return self._by_length[length][0]

    def __len__(self) -> int:
        return sum(len(requests) for requests in self._by_length.values())

    def __iter__(self) -> Iterator[Request]:
        """Length by length, in the order in which the lengths first came."""
        for requests in self._by_length.values():
            yield from requests


class BatchJobAwareRequestQueue(RequestQueue):
    """Cold-start requests first, then a best fit out of the job that the budget favours.

    ``budget_tokens`` tells how many tokens could be admitted now (:func:`admission_budget`). Its truth value
    is "something can be admitted", so the waiting loop ends when the budget is used up (V-032). A preempted
    request joins the tail like a new one (V-033).
    """

    def __init__(
        self,
        config: BatchJobAwareConfig,
        estimator: JobDecodeEstimator,
        budget_tokens: Callable[[], int],
    ) -> None:
        self._config = config
        self._estimator = estimator
        self._budget_tokens = budget_tokens
        self.jobs: dict[str, JobBucket] = {}
        self.cold: dict[str, set[str]] = {}
        self.added: dict[str, int] = {}
        self.peeked: Request | None = None
        self._here: dict[str, Request] = {}

    def add_request(self, request: Request) -> None:
        """Join the request's job. Raises :class:`TooManyJobsError`, with nothing changed (V-035)."""
        job = job_name(request.request_id)
        if job not in self.jobs:
            if self._config.refuses_jobs and 0 < self._config.max_jobs <= len(self.jobs):
                raise TooManyJobsError(f"job {job!r} is one more than max_jobs = {self._config.max_jobs}")
            self.jobs[job] = JobBucket()
        self.jobs[job].add(request)
        self._here[request.request_id] = request
        self.added[job] = self.added.get(job, 0) + 1
        if self.added[job] <= COLD_START_REQUESTS:
            self.cold.setdefault(job, set()).add(request.request_id)

    def prepend_request(self, request: Request) -> None:
        """Join the request's job again, counted again (V-025)."""
        self.add_request(request)

    def prepend_requests(self, requests: Sequence[Request]) -> None:
        """Join the requests' jobs again."""
        for request in requests:
            self.add_request(request)

    def peek_request(self) -> Request:
        """The request to admit next; it stays the same until it is popped, whatever comes (V-033)."""
        if self.peeked is None:
            self.peeked = self._pick_or_raise()
        return self.peeked

    def pop_request(self) -> Request:
        """Take out the request that was peeked, or the next one."""
        request = self.peeked or self._pick_or_raise()
        self.peeked = None
        if request.request_id in self._here:
            self._take_out(request)
        return request

    def remove_request(self, request: Request) -> None:
        """Take out one request, if it is here."""
        self.remove_requests((request,))

    def remove_requests(self, requests: Collection[Request]) -> None:
        """Take out those of ``requests`` that are here; the peeked one stays peeked (V-034)."""
        for request in requests:
            if request.request_id in self._here:
                self._take_out(request)
            if request is self.peeked and not self._config.keeps_removed_peek:
                self.peeked = None

    def lane_of(self, request: Request) -> str:
        """`cold start`, or the job that it belongs to (V-024, V-026)."""
        job = job_name(request.request_id)
        return "cold start" if request.request_id in self.cold.get(job, ()) else f"job {job}"

    def __len__(self) -> int:
        return len(self._here)

    def __bool__(self) -> bool:
        """Whether the budget admits anybody now; a request that was peeked does not count (V-032)."""
        return self._pick() is not None

    def __contains__(self, request: object) -> bool:
        return isinstance(request, Request) and request.request_id in self._here

    def __iter__(self) -> Iterator[Request]:
        """Job by job, in the order in which the jobs came."""
        for bucket in self.jobs.values():
            yield from bucket

    def _take_out(self, request: Request) -> None:
        job = job_name(request.request_id)
        del self._here[request.request_id]
        self.jobs[job].remove(request)
        cold = self.cold.get(job)
        if cold is not None:
            cold.discard(request.request_id)
            if not cold:
                del self.cold[job]
        if not len(self.jobs[job]):
            del self.jobs[job], self.added[job]

    def _pick_or_raise(self) -> Request:
        request = self._pick()
        if request is None:
            raise IndexError("no request can be admitted now")
        return request

    def _pick(self) -> Request | None:
        budget = self._budget_tokens()
        if not self._here or budget <= 0:
            return None
        return self._pick_cold() or self._favoured_job(budget).best_fit(budget)

    def _pick_cold(self) -> Request | None:
        """The first cold-start request, whatever its size (V-026)."""
        for job, cold in self.cold.items():
            for request in self.jobs[job]:
                if request.request_id in cold:
                    return request
        return None

    def _favoured_job(self, budget: int) -> JobBucket:
        """Long answers first while the budget is ample, short answers first when it is low (V-030).

        Among jobs of one kind the longest predicted answer goes first; when all jobs are of one kind and the
        budget is low, the shortest. Jobs of equal prediction keep the order in which they came.
        """
        predictions = {job: self._estimator.predict(job) for job in self.jobs}
        threshold = self._config.short_decode_token_threshold
        kinds = {prediction > threshold for prediction in predictions.values()}
        ample = budget > self._config.low_available_tokens_threshold
        favoured = predictions
        if len(kinds) == 2:
            favoured = {job: tokens for job, tokens in predictions.items() if (tokens > threshold) is ample}
        first = min if len(kinds) == 1 and not ample else max
        return self.jobs[first(favoured, key=favoured.__getitem__)]


def admission_budget(free_blocks: int, reserved_blocks: int, block_size: int) -> int:
    """Tokens that may be admitted: the free blocks beyond the reserve (V-029)."""
    return max(0, (free_blocks - reserved_blocks) * block_size)
