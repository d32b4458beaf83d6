"""The second half of a step: waiting requests are admitted from the head, one by one (S-050 to S-060)."""

from __future__ import annotations

import enum
from typing import NamedTuple

from serq.runtime.vllm.kv_transfers import KVTransfers
from serq.runtime.vllm.prefix_lookup import PrefixHit
from serq.runtime.vllm.request import Request, RequestStatus
from serq.runtime.vllm.request_queue import RequestQueue
from serq.runtime.vllm.scheduler_base import FormingStep, PauseState
from serq.runtime.vllm.scheduler_output import ShareKind


class Verdict(enum.Enum):
    """What becomes of the head of the queue."""

    ADMIT = enum.auto()
    SET_ASIDE = enum.auto()
    """It cannot be scheduled now; those behind it may."""
    STOP = enum.auto()
    """It does not fit; nobody behind it is tried."""


class Start(NamedTuple):
    """Where a waiting request would start: what is computed already, here and elsewhere."""

    hit: PrefixHit
    num_computed_tokens: int
    num_external_tokens: int = 0
    load_async: bool = False


class WaitingLoop(KVTransfers):
    """The walk over the waiting queues."""

    pads_speculation = True
    """Whether one-token admissions are padded to the width of a verifying step (S-107)."""
    defers_prefills = True
    """Whether the data-parallel cadence applies (S-150)."""
    guards_stale_output = True
    """Whether a preempted request waits for its output in flight (S-052)."""
    keeps_partial_tail = True
    """Whether a connector sees the block-aligned part of the local hit only (S-130, S-131)."""

    # ---- hooks ------------------------------------------------------------------

    def admission_open(self, step: FormingStep) -> bool:
        """Hook: whether any waiting request is looked at in this step (S-044, S-050, S-143)."""
        return not step.preempted and self.pause_state is PauseState.UNPAUSED

    def has_slot(self) -> bool:
        """Hook: whether another request may run; asked before the head is looked at (S-050)."""
        return len(self.running) < self.config.max_num_seqs

    def may_admit(self, request: Request) -> bool:
        """Hook: whether policy lets ``request`` in, memory and budget aside; if not it is set aside."""
        return True

    # ---- the walk -----------------------------------------------------------------

    def schedule_waiting(self, step: FormingStep) -> None:
        """Admit from the head until somebody does not fit; who is set aside comes first next time (S-014)."""
        set_aside: list[Request] = []
        while (queue := self.select_queue()) is not None and step.token_budget > 0 and self.has_slot():
            request = queue.peek_request()
            verdict = Verdict.SET_ASIDE
            if self.may_admit(request):
                verdict = self._try_admit(step, queue, request)
            if verdict is Verdict.STOP:
                break
            if verdict is Verdict.SET_ASIDE:
                queue.pop_request()
                set_aside.append(request)
        if set_aside:
            self.skipped_waiting.prepend_requests(set_aside)
        if not step.defer_prefills:
            self.prefill_capacity_bound = bool(self.waiting)

    def select_queue(self) -> RequestQueue | None:
        """The queue whose head comes next (S-013): set-aside requests first, or the more urgent head."""
        if not self.skipped_waiting:
            return self.waiting or None
        if self.config.policy == "fcfs" or not self.waiting:
            return self.skipped_waiting
        urgent = self.waiting.peek_request().order < self.skipped_waiting.peek_request().order
        return self.waiting if urgent else self.skipped_waiting

    def _try_admit(self, step: FormingStep, queue: RequestQueue, request: Request) -> Verdict:
        """Try the head of ``queue``; ADMIT: it has left the queue and runs."""
        if not self._is_ready(request):
            return Verdict.SET_ASIDE
        start = self._find_start(request)
        if start is None:
            return Verdict.SET_ASIDE
        if start.load_async:
            return self._begin_load(step, request, start)
        share, num_pads = self._admission_share(step, request, start)
        if share == 0 or not self._allocate(request, start, share):
            return Verdict.STOP
        queue.pop_request()
        self._admit(step, request, start, share, num_pads)
        return Verdict.ADMIT

    def _is_ready(self, request: Request) -> bool:
        """Whether nothing is under way that ``request`` must wait for (S-051, S-052)."""
        if request.status is RequestStatus.WAITING_FOR_REMOTE_KVS and not self.promote(request):
            return False
        awaits_output = request.num_stale_output_tokens > 0 and not request.drop_stale_output
        return not (awaits_output and self.guards_stale_output)

    # ---- where it starts ------------------------------------------------------------

    def _find_start(self, request: Request) -> Start | None:
        """What of ``request`` is computed already; None while its connector does not know (S-053)."""
        if request.num_computed_tokens:
            return Start(self.kv_cache_manager.no_hit, request.num_computed_tokens)
        if self.connector is not None:
            return self._ask_connector(request)
        hit = self.kv_cache_manager.get_computed_blocks(request)
        request.shared_prefix_boundary = hit.junction
        return Start(hit, hit.num_tokens)

    def _ask_connector(self, request: Request) -> Start | None:
        """The local hit and what the connector adds to it (S-130 to S-132, S-136)."""
        assert self.connector is not None
        manager = self.kv_cache_manager
        hit = manager.get_computed_blocks_for_connector(request)
        request.shared_prefix_boundary = hit.junction
        tail = hit.num_tokens % self._block_size if self.keeps_partial_tail else 0
        aligned = hit.num_tokens - tail
        external, load_async = self.connector.get_num_new_matched_tokens(request, aligned)
        if external is None:
            return None
        if tail and external > tail:
            hit = manager.truncate(hit, aligned)
        elif tail:
            external, load_async = 0, False
        if hit.diverged and external == 0:
            hit = manager.get_computed_blocks(request)
            request.shared_prefix_boundary = hit.junction
        return Start(hit, hit.num_tokens + external, external, load_async)

    # ---- what it gets ---------------------------------------------------------------

    def _admission_share(self, step: FormingStep, request: Request, start: Start) -> tuple[int, int]:
        """(tokens, padding among them) of the first share; 0 tokens if the request must not start (S-054)."""
        computed = start.num_computed_tokens
        share = request.num_tokens - computed
        if step.defer_prefills and share > 1:
            return 0, 0
        num_pads = self._padding(step) if share == 1 else 0
        share += num_pads
        if num_pads and (share > step.token_budget or computed + share > self.config.max_model_len):
            return 0, 0
        share = self.cap_share(step, request, share)
        if share > step.token_budget and not self.config.enable_chunked_prefill:
            return 0, 0
        share = min(share, step.token_budget)
        if self._aligns_mamba:
            share = self.align_share(request, computed, share)
        return share, num_pads

    def _padding(self, step: FormingStep) -> int:
        """Dummy drafts that give a one-token admission the width of a verifying step (S-107)."""
        speculative = self.config.speculative
        if speculative is None or speculative.per_batch_size or not self.pads_speculation:
            return 0
        runs = any(share.kind == "running" for share in step.scheduled.values())
        return self.config.num_spec_tokens if runs and not step.prefill_scheduled else 0

    def _allocate(self, request: Request, start: Start, num_tokens: int) -> bool:
        """Ask for the blocks of an admission (S-057) or of a load (S-056, S-133)."""
        loads = start.load_async
        allocated = self.kv_cache_manager.allocate_slots(
            request,
            num_tokens,
            hit=start.hit,
            num_lookahead_tokens=0 if loads else self._num_lookahead_tokens,
            num_external_tokens=start.num_external_tokens,
            delay_publication=loads,
            full_sequence_must_fit=self.config.scheduler_reserve_full_isl,
            num_reserved_blocks=self._reserved_blocks() if loads else 0,
            has_running=bool(self.running),
        )
        if allocated and self.connector is not None:
            self.connector.update_state_after_alloc(request, start.num_external_tokens)
        return allocated

    def _reserved_blocks(self) -> int:
        """Blocks that prefills and loads in flight still need (S-133)."""
        return sum(self.kv_cache_manager.remaining_blocks(request) for request in self.inflight_prefills)

    # ---- in -------------------------------------------------------------------------

    def _admit(self, step: FormingStep, request: Request, start: Start, share: int, num_pads: int) -> None:
        """Let ``request`` run (S-058)."""
        self.running.append(request)
        self.end_wait(request, "admitted")
        kind: ShareKind = "resumed" if request.status is RequestStatus.PREEMPTED else "new"
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = start.num_computed_tokens
        step.hits[request.request_id] = start.hit.num_tokens, start.num_external_tokens
        self.take_share(step, request, share, kind, num_pads)
        if start.num_computed_tokens + share < request.num_tokens:
            self.inflight_prefills.add(request)

    def _begin_load(self, step: FormingStep, request: Request, start: Start) -> Verdict:
        """Park ``request`` with its blocks while a connector loads them (S-133)."""
        if not self._allocate(request, start, 0):
            return Verdict.STOP
        request.status = RequestStatus.WAITING_FOR_REMOTE_KVS
        self.end_wait(request, "loading")
        request.num_computed_tokens = start.num_computed_tokens
        step.hits[request.request_id] = start.hit.num_tokens, start.num_external_tokens
        self.inflight_prefills.add(request)
        self._skip_zero_block_ids.update(
            self.kv_cache_manager.block_ids_between(
                request.request_id, start.hit.num_tokens, start.num_computed_tokens
            )
        )
        return Verdict.SET_ASIDE
