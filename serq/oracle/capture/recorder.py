"""Writes down what the scheduler decides. It wraps four methods of the live objects and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from serq.oracle.capture.scenario import Scenario


class StepLimitError(RuntimeError):
    """The scenario needs more steps than allowed; it may never end."""


@dataclass(slots=True)
class Reset:
    """The outcome of a prefix cache reset."""

    succeeded: bool = False


@dataclass(slots=True)
class RequestRow:
    """What the trace says about a request; ``tok`` holds the time of each token."""

    id: str
    arrival: int
    first_sched: int | None = None
    tok: list[int] = field(default_factory=list)
    finish: int | None = None
    reason: str | None = None
    preempt: int = 0
    cached: int | None = None
    ext: int | None = None


class Recorder:
    """Steps and requests of a recording, in the fields of the trace format."""

    def __init__(self, scenario: Scenario, clock: Any, max_steps: int) -> None:
        self._clock = clock
        self._options = scenario.trace
        self._max_steps = max_steps
        self._full_k = None if scenario.spec is None else scenario.spec.k
        self._live: set[str] = set()
        self._preempted: list[str] = []
        self._hits: dict[str, list[int]] = {}
        self._executing = 0
        self.steps: list[dict[str, Any]] = []
        self.requests = {r.id: RequestRow(r.id, r.t) for r in scenario.requests}
        self.resets: list[list[Any]] = []
        self.admitted: frozenset[str] = frozenset()
        self.progressed = False
        self.schedule_seconds = 0.0
        self.update_seconds = 0.0

    @property
    def num_steps(self) -> int:
        """Calls of ``schedule()`` so far."""
        return len(self.steps)

    def attach(self, scheduler: Any) -> None:
        """Observe a scheduler from now on."""
        self._scheduler = scheduler
        self._manager = scheduler.kv_cache_manager
        scheduler.schedule = self._around_schedule(scheduler.schedule)
        scheduler.update_from_output = self._around_update(scheduler.update_from_output)
        scheduler._preempt_request = self._around_preempt(scheduler._preempt_request)
        self._manager.allocate_slots = self._around_allocate(self._manager.allocate_slots)

    # What the others tell

    def request_arrived(self, request_id: str) -> None:
        """The engine took the request in."""
        self._live.add(request_id)

    def request_aborted(self, request_id: str) -> bool:
        """A client leaves; False if the request is not there or has ended already."""
        if request_id not in self._live or request_id not in self._scheduler.requests:
            return False
        self.progressed = True
        self._finish(request_id, "abort")
        return True

    def step_executed(self, index: int, start: int, duration: int, processed: int) -> None:
        """The device finished step ``index``, whose output is taken in at ``processed``."""
        self._executing = index
        self.steps[index].update(t0=start, dt=duration, t1=processed)

    def transfers_ended(self, index: int, received: tuple[str, ...], sent: tuple[str, ...]) -> None:
        """The worker reports ended KV transfers with the output of step ``index``."""
        if received:
            self.steps[index]["recv"] = list(received)
        if sent:
            self.steps[index]["sent"] = list(sent)

    @contextmanager
    def resetting(self) -> Iterator[Reset]:
        """Around a prefix cache reset: whom it preempts, and whether it succeeds."""
        reset, self._preempted = Reset(), []
        yield reset
        self.resets.append([self.num_steps, reset.succeeded, list(self._preempted)])
        self._count_preemptions()

    # The wrapped methods

    def _around_schedule(self, schedule: Callable[..., Any]) -> Callable[..., Any]:
        def observed(*args: Any, **kwargs: Any) -> Any:
            if self.num_steps >= self._max_steps:
                raise StepLimitError(f"no end after {self._max_steps} steps")
            self._preempted, self._hits, self.progressed = [], {}, False
            free_before = self._manager.block_pool.get_num_free_blocks()
            began = perf_counter()
            output = schedule(*args, **kwargs)
            self.schedule_seconds += perf_counter() - began
            self._scheduled(output, free_before)
            return output

        return observed

    def _around_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        def observed(scheduler_output: Any, model_output: Any) -> Any:
            began = perf_counter()
            outputs = update(scheduler_output, model_output)
            self.update_seconds += perf_counter() - began
            self._updated(scheduler_output, outputs)
            return outputs

        return observed

    def _around_preempt(self, preempt: Callable[..., Any]) -> Callable[..., Any]:
        def observed(request: Any, *args: Any, **kwargs: Any) -> Any:
            self._preempted.append(request.request_id)
            return preempt(request, *args, **kwargs)

        return observed

    def _around_allocate(self, allocate: Callable[..., Any]) -> Callable[..., Any]:
        def observed(request: Any, *args: Any, **kwargs: Any) -> Any:
            blocks = allocate(request, *args, **kwargs)
            is_admission = "has_scheduled_reqs" in kwargs
            if is_admission and blocks is not None:
                local, external = kwargs["num_new_computed_tokens"], kwargs["num_external_computed_tokens"]
                self._hits[request.request_id] = [local, external]
            return blocks

        return observed

    # Rows of the trace

    def _scheduled(self, output: Any, free_before: int) -> None:
        scheduler, cached = self._scheduler, output.scheduled_cached_reqs
        computed = {row.req_id: row.num_computed_tokens for row in output.scheduled_new_reqs}
        computed.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        self.admitted = frozenset(row.req_id for row in output.scheduled_new_reqs) | cached.resumed_req_ids
        drafts = {r: len(tokens) for r, tokens in output.scheduled_spec_decode_tokens.items()}
        num_running, num_waiting = scheduler.get_request_counts()
        step: dict[str, Any] = {
            "i": self.num_steps,
            "t": self._clock.now,
            "s": [
                [r, share, self._kind(r), computed[r], drafts.get(r, 0)]
                for r, share in output.num_scheduled_tokens.items()
            ],
            "tok": output.total_num_scheduled_tokens,
            "q": [num_running, num_waiting, len(scheduler.skipped_waiting)],
            "free": [free_before, self._manager.block_pool.get_num_free_blocks(), None],
        }
        step.update(self._occasional(output))
        step.update(self._details(output))
        self.steps.append(step)
        self._note_admissions()
        self._count_preemptions()

    def _kind(self, request_id: str) -> str:
        if request_id not in self.admitted:
            return "c"
        return "r" if self._scheduler.requests[request_id].num_preemptions else "n"

    def _occasional(self, output: Any) -> dict[str, Any]:
        """Fields that stand in a step only when there is something to say."""
        k = output.num_spec_tokens_to_schedule
        found = {
            "pre": list(self._preempted),
            "fin": sorted(output.finished_req_ids),
            "hit": dict(self._hits),
            "cpb": list(output.num_common_prefix_blocks) if any(output.num_common_prefix_blocks) else None,
            "cow": [list(pair) for pair in output.kv_cache_block_copies or ()],
            "zero": list(output.new_block_ids_to_zero or ()),
        }
        present = {name: value for name, value in found.items() if value}
        if self._full_k is not None and k != self._full_k:
            present["k"] = k
        return present

    def _details(self, output: Any) -> dict[str, Any]:
        """Block tables and queues, where the scenario asks for them."""
        scheduler = self._scheduler
        details: dict[str, Any] = {}
        if self._options.blocks:
            details["blk"] = {
                request_id: [list(table) for table in self._manager.get_block_ids(request_id)]
                for request_id in output.num_scheduled_tokens
            }
        if self._options.queues:
            for name, requests in (
                ("rq", scheduler.running),
                ("wq", scheduler.waiting),
                ("sq", scheduler.skipped_waiting),
            ):
                details[name] = [request.request_id for request in requests]
        return details

    def _note_admissions(self) -> None:
        for request_id in self.admitted:
            row = self.requests[request_id]
            if row.first_sched is None:
                row.first_sched = self._clock.now
        for request_id, (local, external) in self._hits.items():
            row = self.requests[request_id]
            if row.cached is None:
                row.cached, row.ext = local, external

    def _count_preemptions(self) -> None:
        for request_id in self._preempted:
            self.requests[request_id].preempt += 1

    def _updated(self, scheduler_output: Any, outputs: Any) -> None:
        now, step = self._clock.now, self.steps[self._executing]
        step["free"][2] = self._manager.block_pool.get_num_free_blocks()
        if scheduler_output.total_num_scheduled_tokens or "recv" in step or "sent" in step:
            self.progressed = True
        done = []
        for output in (one for of_client in outputs.values() for one in of_client.outputs):
            self.requests[output.request_id].tok += [now] * len(output.new_token_ids)
            if output.finish_reason is not None:
                self._finish(output.request_id, output.finish_reason.name.lower())
                done.append(output.request_id)
        if done:
            step["done"] = done

    def _finish(self, request_id: str, reason: str) -> None:
        row = self.requests[request_id]
        if row.finish is None:
            row.finish, row.reason = self._clock.now, reason
            self._live.discard(request_id)
