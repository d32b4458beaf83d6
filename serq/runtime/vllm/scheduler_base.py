"""What a scheduler holds, and the ways in and out of it: arrivals, preemption, ends, pause and reset."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.deferred_free import BlockFreer
from serq.runtime.vllm.kv_cache_manager import KVCacheManager
from serq.runtime.vllm.request import Request, RequestStatus, Time
from serq.runtime.vllm.request_queue import RequestQueue, create_request_queue
from serq.runtime.vllm.scheduler_output import ScheduledRequest, ShareKind

Outcome = Literal["admitted", "loading", "loaded", "ended"]
"""How a stay in a lane ends: it runs, its KV is loaded from elsewhere, has been, or the request is over."""


class PauseState(enum.Enum):
    """How far a scheduler is paused (S-143): not, no admissions, or nothing at all."""

    UNPAUSED = enum.auto()
    PAUSED_NEW = enum.auto()
    PAUSED_ALL = enum.auto()


@dataclass(slots=True)
class FormingStep:
    """A step while it is being formed.

    ``num_free_blocks`` is what it started from, ``index`` the place in ``running`` that the running loop
    looks at. ``defer_prefills``: the data-parallel cadence holds prefills back (S-150).
    ``prefill_scheduled``: a running request got a share that was still prefilling after its previous step
    (S-107).
    """

    token_budget: int
    num_free_blocks: int
    defer_prefills: bool = False
    index: int = 0
    scheduled: dict[str, ScheduledRequest] = field(default_factory=dict)
    preempted: list[Request] = field(default_factory=list)
    hits: dict[str, tuple[int, int]] = field(default_factory=dict)
    prefill_scheduled: bool = False


class SchedulerObserver:
    """Hears who leaves the waiting queue and who gives way. Nothing it does may change the scheduler."""

    def left_queue(self, request: Request, outcome: Outcome, now: Time) -> None:
        """``request`` waited in its lane until now."""

    def preempted(self, request: Request, lost_tokens: int, needed_by: Request | None, now: Time) -> None:
        """``request`` lost what was computed of it, because ``needed_by`` needed blocks."""


class SchedulerBase:
    """The state of a scheduler (S-001)."""

    def __init__(self, config: EngineConfig, connector: KVConnector | None = None) -> None:
        self.config = config
        self.connector = connector
        self.kv_cache_manager = self.create_kv_cache_manager(config)
        self.waiting: RequestQueue = create_request_queue(config.policy)
        self.skipped_waiting: RequestQueue = create_request_queue(config.policy)
        self.running: list[Request] = []
        self.requests: dict[str, Request] = {}
        self.pause_state = PauseState.UNPAUSED
        self.observer = SchedulerObserver()
        self.finished_req_ids: set[str] = set()
        self.inflight_prefills: set[Request] = set()
        self.finished_recving: set[str] = set()
        self.failed_recving: set[str] = set()
        self.prefill_capacity_bound = False
        self.now: Time = 0
        transfer = config.kv_transfer
        self.requires_kv_delivery = transfer is not None and transfer.is_producer
        defers = transfer is not None and transfer.is_consumer and config.max_concurrent_batches > 1
        self.freer = BlockFreer(self.kv_cache_manager, defers=defers)
        self._skip_zero_block_ids: set[int] = set()
        self._block_size, self._hash_block_size = config.block_sizes
        self._token_budget = config.token_budget
        self._num_lookahead_tokens = config.num_lookahead_tokens
        self._aligns_mamba = config.aligns_mamba

    @staticmethod
    def create_kv_cache_manager(config: EngineConfig) -> KVCacheManager:
        """Hook: what keeps the blocks."""
        return KVCacheManager(config)

    # ---- in -----------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        """Take in a new request (S-010); its prompt is no longer than ``max_model_len``."""
        self.waiting.add_request(request)
        self.requests[request.request_id] = request
        self._begin_wait(request, self.waiting.lane_of(request))

    def wait_in_front(self, request: Request) -> None:
        """Let ``request``, which ran, wait where it is served early (S-043)."""
        self.waiting.prepend_request(request)
        self._begin_wait(request, self.waiting.lane_of(request))

    def _begin_wait(self, request: Request, lane: str) -> None:
        request.lane = lane
        request.waits_since = self.now

    def end_wait(self, request: Request, outcome: Outcome) -> None:
        """``request`` waits in its lane no longer; what is loaded waits on, under that name."""
        self.observer.left_queue(request, outcome, self.now)
        self._begin_wait(request, outcome if outcome in ("loading", "loaded") else "")

    # ---- counts ---------------------------------------------------------------

    @property
    def num_waiting(self) -> int:
        """Requests that wait, set aside or not."""
        return len(self.waiting) + len(self.skipped_waiting)

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether something could still be scheduled (S-143)."""
        if self.pause_state is PauseState.PAUSED_ALL:
            return False
        if self.running:
            return True
        return self.pause_state is PauseState.UNPAUSED and self.num_waiting > 0

    @property
    def has_requests(self) -> bool:
        """Whether a step has anything to do, if only to report what ended (S-007).

        With a connector also while a finished request's blocks wait for a transfer.
        """
        if self.has_unfinished_requests or self.finished_req_ids:
            return True
        return self.connector is not None and len(self.requests) > self.num_waiting + len(self.running)

    # ---- shares ---------------------------------------------------------------

    def take_share(
        self, step: FormingStep, request: Request, num_tokens: int, kind: ShareKind, num_spec_tokens: int
    ) -> None:
        """Record a share and pay for it out of the budget (S-028, S-058)."""
        known = request.num_tokens + request.num_output_placeholders - request.num_computed_tokens
        step.scheduled[request.request_id] = ScheduledRequest(
            request=request,
            num_tokens=num_tokens,
            kind=kind,
            num_computed_tokens=request.num_computed_tokens,
            num_spec_tokens=num_spec_tokens,
            is_decode=known == 1 and request.num_computed_tokens > 0,
        )
        step.token_budget -= num_tokens

    def cap_share(self, step: FormingStep, request: Request, num_tokens: int) -> int:
        """Hook: the most of ``num_tokens`` that ``request`` may get, budget aside (S-024 (2), S-054)."""
        threshold = self.config.long_prefill_token_threshold
        return threshold if 0 < threshold < num_tokens else num_tokens

    def align_share(self, request: Request, start: int, num_tokens: int) -> int:
        """``num_tokens`` from token ``start`` on, cut where mamba state must be cached (S-120).

        A share ends on a block boundary, at the last one of the sequence, at the prompt's last hash
        boundary or at a junction, whichever comes first; 0 if it would reach none of them.
        """
        prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)
        if start >= prefill_end:
            return num_tokens
        size = self.config.cache_block_size
        end = start + num_tokens
        if end < prefill_end:
            largest = self.cap_to_threshold(self._token_budget)
            floor = end // size * size
            if floor > start or size <= largest:
                end = floor
        stops = self._state_stops(request, start, end, size)
        return max(min((stop for stop in stops if start < stop < end), default=end) - start, 0)

    def cap_to_threshold(self, num_tokens: int) -> int:
        """The smaller of ``num_tokens`` and the threshold, if there is one."""
        threshold = self.config.long_prefill_token_threshold
        return min(num_tokens, threshold) if threshold > 0 else num_tokens

    def _state_stops(self, request: Request, start: int, end: int, size: int) -> Iterable[int]:
        """Where a share from ``start`` to ``end`` may have to stop (S-120)."""
        if start % size:
            yield (start // size + 1) * size
        last_boundary = request.num_tokens // size * size
        if self.config.uses_eagle:
            last_boundary -= size
        yield last_boundary
        if self._hash_block_size < self._block_size:
            tail = request.num_prompt_tokens // self._hash_block_size * self._hash_block_size
            if max(last_boundary, 0) < tail < request.num_prompt_tokens:
                yield tail
        junction = request.shared_prefix_boundary
        if start < junction < end:
            yield start + (junction - start) // size * size

    # ---- out ------------------------------------------------------------------

    def preempt_request(
        self,
        request: Request,
        *,
        drop_stale_output: bool,
        needed_by: Request | None = None,
        is_offloaded: bool = False,
    ) -> None:
        """Take everything from a request no longer in ``running`` and let it wait (S-043, S-104).

        ``needed_by`` needs its blocks; what ``is_offloaded`` is not lost.
        """
        lost_tokens = 0 if is_offloaded else request.num_computed_tokens
        self.observer.preempted(request, lost_tokens, needed_by, self.now)
        self.freer.free_request(request)
        self.inflight_prefills.discard(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.num_spec_tokens = 0
        request.drop_stale_output = drop_stale_output or (
            request.drop_stale_output and request.num_stale_output_tokens > 0
        )
        request.num_stale_output_tokens = request.num_in_flight_tokens
        request.num_output_placeholders = 0
        request.num_preemptions += 1
        self.wait_in_front(request)

    def finish_requests(self, request_ids: Iterable[str], status: RequestStatus) -> list[Request]:
        """End requests from outside, wherever they are (S-140); those that were alive, in order."""
        found = [self.requests[request_id] for request_id in request_ids if request_id in self.requests]
        ended = [request for request in dict.fromkeys(found) if not request.is_finished]
        self.leave_queues([request for request in ended if request.status is not RequestStatus.RUNNING])
        self.leave_running([request for request in ended if request.status is RequestStatus.RUNNING])
        for request in ended:
            loading = request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
            keep_blocks = loading and request.request_id not in self.finished_recving
            self.finished_recving.discard(request.request_id)
            self.failed_recving.discard(request.request_id)
            request.status = status
            self.free_request(request, keep_blocks=keep_blocks)
        return ended

    def leave_running(self, requests: list[Request]) -> None:
        """Take ``requests`` out of ``running`` if they are there; the others keep their places (S-015)."""
        if len(requests) == 1:
            with contextlib.suppress(ValueError):
                self.running.remove(requests[0])
        elif requests:
            gone = set(requests)
            self.running = [request for request in self.running if request not in gone]

    def leave_queues(self, requests: list[Request]) -> None:
        """Take ``requests`` out of whichever queue they wait in."""
        if requests:
            self.waiting.remove_requests(requests)
            self.skipped_waiting.remove_requests(requests)

    def free_request(self, request: Request, *, keep_blocks: bool = False) -> None:
        """Let a finished request go: its id is reported by the next step (S-060, S-100).

        Its blocks stay while a transfer still needs them (S-135).
        """
        self.inflight_prefills.discard(request)
        if request.lane:
            self.end_wait(request, "ended")
        if self.connector is not None:
            self.kv_cache_manager.remove_skipped_blocks(request)
            keep_blocks |= self.connector.request_finished(request)
        self.finished_req_ids.add(request.request_id)
        if not keep_blocks:
            self.release(request)

    def release(self, request: Request) -> None:
        """Free the blocks of a finished request and forget it."""
        self.freer.free_request(request)
        del self.requests[request.request_id]

    # ---- control ----------------------------------------------------------------

    def reset_prefix_cache(self, *, reset_running_requests: bool = False) -> tuple[bool, list[Request]]:
        """Forget all cached prefixes: (whether it worked, requests preempted for it) (S-141, S-142)."""
        preempted = []
        while reset_running_requests and self.running:
            request = self.running.pop()
            self.preempt_request(request, drop_stale_output=True)
            preempted.append(request)
        return self.kv_cache_manager.reset_prefix_cache(), preempted
