"""Replays of the recorded operations on waiting queues, and of the service orders they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from serq.oracle.ascend.clock import ReplayClock
from serq.runtime.ascend.batch_job_aware import (
    BatchJobAwareConfig,
    BatchJobAwareRequestQueue,
    admission_budget,
)
from serq.runtime.ascend.block_reserve import RunningBlockReserver
from serq.runtime.ascend.job_decode import JobDecodeEstimator, TooManyJobsError, job_name
from serq.runtime.ascend.short_request_first import (
    LANES,
    ShortRequestFirstConfig,
    ShortRequestFirstRequestQueue,
    is_recovery_request,
)
from serq.runtime.vllm.request import Request, RequestStatus, StopRule
from serq.runtime.vllm.tokens import OutputScript

Document = dict[str, Any]
REFUSALS: dict[type[Exception], str] = {
    IndexError: "IndexError",
    ValueError: "ValueError",
    RuntimeError: "RuntimeError",
    TooManyJobsError: "RuntimeError",
}
"""What a queue raises, and what upstream's raises there."""


def _queued(operation: Document, arrival_time: float = 0.0) -> Request:
    """The request that an ``add``, ``prepend`` or ``run_new`` operation speaks of."""
    request = Request(
        operation["id"],
        ((operation["id"], 0, operation["prompt"]),),
        StopRule(max_tokens=1),
        OutputScript(operation["id"]),
        arrival_time=arrival_time,
        priority=operation.get("priority", 0),
    )
    request.status = RequestStatus[operation.get("status", "WAITING")]
    request.num_computed_tokens = operation.get("computed", 0)
    request.num_output_tokens = operation.get("outputs", 0)
    return request


def _ids(requests: Iterable[Request]) -> list[str]:
    return [request.request_id for request in requests]


class _LanesUnderTest:
    """A ShortRequestFirst queue with a clock that a recording sets and the requests it names."""

    def __init__(self, config: Document) -> None:
        self.clock = ReplayClock()
        self.requests: dict[str, Request] = {}
        self.flagged: set[str] = set()
        predicates: dict[str | None, Callable[[Request], bool]] = {
            "flag": lambda request: request.request_id in self.flagged,
            "recovery": is_recovery_request,
            None: lambda request: False,
        }
        self.queue = ShortRequestFirstRequestQueue(
            ShortRequestFirstConfig(config["threshold"], config["long_max_wait_ms"]),
            self.clock.seconds,
            policy=config.get("policy", "fcfs"),
            is_immediate=predicates[config.get("predicate", "flag")],
        )

    def register(self, operation: Document, arrival_time: float) -> None:
        """Make the request that an operation introduces."""
        request = _queued(operation, arrival_time)
        self.requests[request.request_id] = request
        self.flagged.discard(request.request_id)
        if operation.get("immediate", False):
            self.flagged.add(request.request_id)

    def perform(self, operation: Document) -> Any:
        """One operation's result."""
        queue, name = self.queue, operation["op"]
        several = [self.requests[request_id] for request_id in operation.get("ids", ())]
        if name == "mark":
            self._mark(operation)
            return None

        def request() -> Request:
            return self.requests[operation["id"]]

        performers: dict[str, Callable[[], Any]] = {
            "add": lambda: queue.add_request(request()),
            "prepend": lambda: queue.prepend_request(request()),
            "prepend_many": lambda: queue.prepend_requests(several[::-1]),
            "pop": lambda: queue.pop_request().request_id,
            "peek": lambda: queue.peek_request().request_id,
            "remove": lambda: queue.remove_request(request()),
            "remove_many": lambda: queue.remove_requests(several),
            "iter": lambda: _ids(queue),
            "contains": lambda: request() in queue,
            "bool": lambda: bool(queue),
        }
        return performers[name]()

    def _mark(self, operation: Document) -> None:
        request = self.requests[operation["id"]]
        for name, value in operation["set"].items():
            if name == "immediate":
                (self.flagged.add if value else self.flagged.discard)(request.request_id)
            else:
                setattr(request, name, RequestStatus[value] if name == "status" else value)

    def state(self) -> Document:
        """Lanes, pin and counters, as a recording lists them."""
        counters = self.queue.counters
        return {
            **{lane: _ids(self.queue.lane(lane)) for lane in LANES},
            "len": len(self.queue),
            "pinned": self.queue.pinned,
            "aged_promotions": counters.aged_promotions,
            "streak": counters.streak,
            "dispatches": dict(counters.dispatches),
            "prepends": dict(counters.prepends),
        }


def _attempt(perform: Callable[[Document], Any], operation: Document) -> Any:
    try:
        return perform(operation)
    except tuple(REFUSALS) as refusal:
        return {"error": next(name for kind, name in REFUSALS.items() if isinstance(refusal, kind))}


def replay_srf_queue(document: Document) -> Document:
    """Kind ``srf_queue``: the result of every operation and the lanes after it."""
    lanes = _LanesUnderTest(document["config"])
    results = []
    for operation in document["ops"]:
        lanes.clock.set(operation["t_us"])
        if operation["op"] in ("add", "prepend") and "prompt" in operation:
            lanes.register(operation, operation["t_us"] / 1e6)
        result = _attempt(lanes.perform, operation)
        results.append({"result": result, **lanes.state()})
    warned = [round(seconds * 1e6) for seconds in lanes.queue.counters.warned_at]
    return {"results": results, "warned_at_us": warned}


def replay_srf_service(document: Document) -> Document:
    """Kind ``srf_service``: whenever a server is free it serves the next request for a given time."""
    lanes = _LanesUnderTest(document["config"])
    arrivals = sorted(document["requests"], key=lambda request: request["t_us"])
    service = {request["id"]: request["service_us"] for request in arrivals}
    stamped_on_arrival = document.get("admit", "arrival") == "arrival"
    free_at = [0] * document.get("servers", 1)
    order: list[Document] = []
    while arrivals or len(lanes.queue):
        server = min(range(len(free_at)), key=free_at.__getitem__)
        now = free_at[server]
        if not len(lanes.queue):
            now = max(now, arrivals[0]["t_us"])
        while arrivals and arrivals[0]["t_us"] <= now:
            arrival = arrivals.pop(0)
            lanes.clock.advance(arrival["t_us"] if stamped_on_arrival else now)
            lanes.register(arrival, 0.0)  # as in the recordings: a priority policy orders these by id
            lanes.queue.add_request(lanes.requests[arrival["id"]])
        lanes.clock.advance(now)
        order.append(_served(lanes, now))
        free_at[server] = now + service[order[-1]["id"]]
    return {"order": order}


def _served(lanes: _LanesUnderTest, now: int) -> Document:
    waited = lanes.queue.long_head_wait_ms
    lane = lanes.queue.next_lane
    return {
        "id": lanes.queue.pop_request().request_id,
        "start_us": now,
        "lane": lane,
        "long_head_wait_ms": None if waited is None else round(waited, 9),
    }


class _JobsUnderTest:
    """A BatchJobAware queue, its estimator and reserve, over a pool and running set that a recording sets."""

    def __init__(self, document: Document) -> None:
        config = document["config"]
        options = BatchJobAwareConfig(**config.get("bja", {}))
        self.free_blocks: int = config["free_blocks"]
        self.block_size: int = config["block_size"]
        self.running: list[Request] = []
        self.requests: dict[str, Request] = {}
        self.estimator = JobDecodeEstimator(options.max_jobs)
        self.reserver = RunningBlockReserver(
            lambda: self.running,
            block_size=self.block_size,
            max_num_scheduled_tokens=config.get("max_num_scheduled_tokens", 8192),
            num_lookahead_tokens=config.get("num_lookahead_tokens", 0),
            margin_blocks=options.reserve_margin_blocks,
            max_blocks=options.reserve_max_blocks,
        )
        self.queue = BatchJobAwareRequestQueue(options, self.estimator, self.budget)

    def budget(self) -> int:
        """Tokens that could be admitted now."""
        return admission_budget(self.free_blocks, self.reserver.predict(), self.block_size)

    def perform(self, operation: Document) -> Any:
        """One operation's result."""
        name = operation["op"]
        if "prompt" in operation:
            self.requests[operation["id"]] = _queued(operation)
        performers = {**self._on_queue(operation), **self._on_parts(operation), **self._on_running(operation)}
        return performers[name]()

    def _on_queue(self, operation: Document) -> dict[str, Callable[[], Any]]:
        queue = self.queue
        several = [self.requests[request_id] for request_id in operation.get("ids", ())]

        def request() -> Request:
            return self.requests[operation["id"]]

        return {
            "add": lambda: queue.add_request(request()),
            "prepend": lambda: queue.prepend_request(request()),
            "pop": lambda: queue.pop_request().request_id,
            "peek": lambda: queue.peek_request().request_id,
            "remove": lambda: queue.remove_request(request()),
            "remove_many": lambda: queue.remove_requests(several),
            "iter": lambda: _ids(queue),
            "bool": lambda: bool(queue),
            "len": lambda: len(queue),
            "state": self._state,
        }

    def _on_parts(self, operation: Document) -> dict[str, Callable[[], Any]]:
        return {
            "observe": lambda: self.estimator.observe(operation["job"], operation["n"]),
            "predict": lambda: self.estimator.predict(operation["job"]),
            "stats": lambda: job_stats(self.estimator),
            "job": lambda: job_name(operation["id"]),
            "reserve": self.reserver.predict,
            "budget": self.budget,
            "step": self.reserver.invalidate,
            "set_free": lambda: setattr(self, "free_blocks", operation["n"]),
        }

    def _on_running(self, operation: Document) -> dict[str, Callable[[], Any]]:
        def run() -> None:
            request = self.requests[operation["id"]]
            request.num_computed_tokens = operation.get("computed", request.num_computed_tokens)
            self.running.append(request)

        def advance() -> None:
            self.requests[operation["id"]].num_computed_tokens += operation["n"]

        return {
            "run": run,
            "run_new": run,
            "unrun": lambda: self.running.remove(self.requests[operation["id"]]),
            "advance": advance,
        }

    def _state(self) -> Document:
        queue = self.queue
        return {
            "jobs": {job: _ids(bucket) for job, bucket in queue.jobs.items()},
            "cold": {job: sorted(cold) for job, cold in queue.cold.items()},
            "count": dict(queue.added),
            "len": len(queue),
            "peeked": None if queue.peeked is None else queue.peeked.request_id,
        }


def job_stats(estimator: JobDecodeEstimator) -> Document:
    """Samples and averages of every job, as recordings list them."""
    return {
        job: {"sample_count": samples.count, "ewma_average": round(samples.average, 1)}
        for job, samples in estimator.jobs.items()
    }


def replay_bja_queue(document: Document) -> Document:
    """Kind ``bja_queue``: the result of every operation."""
    jobs = _JobsUnderTest(document)
    return {"results": [_attempt(jobs.perform, operation) for operation in document["ops"]]}
