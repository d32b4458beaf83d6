"""The recompute scheduler of prefill/decode-disaggregated decode nodes (V-037 to V-049).

Where blocks lack it does not make a request compute its prompt again here: it offloads the request's KV
through the connector, or ends the request as "recomputed" so that the gateway starts it elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from serq.runtime.upstream_defects import UpstreamCrashError
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.request import Request, RequestStatus, Time
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import FormingStep
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput


@runtime_checkable
class PreemptionOffloader(Protocol):
    """A connector that can keep the KV of a request about to be preempted."""

    def update_state_before_preempt(
        self, request: Request, block_ids: Sequence[Sequence[int]], num_computed_tokens: int
    ) -> bool:
        """Whether the connector takes the request's blocks over (V-038)."""


@dataclass(frozen=True, slots=True)
class OffloadedRequest:
    """A preempted request whose KV the connector took over (V-038)."""

    request_id: str
    num_computed_tokens: int
    num_blocks: int


class RecomputeScheduler(VllmScheduler):
    """Offloads or ends the last running request where the base scheduler would preempt it (V-038).

    Its walk is a copy of an earlier one, which lacks some rules of the base (V-042).

    ``fixed`` models it without its known defect: tokens in flight of an offloaded request are stale (V-048).
    """

    skips_at_max_model_len = True
    pads_speculation = False
    guards_stale_output = False
    keeps_partial_tail = False

    def __init__(
        self, config: EngineConfig, connector: KVConnector | None = None, *, fixed: bool = False
    ) -> None:
        super().__init__(config, connector)
        self._fixed = self.guards_stale_output = fixed

    recomputed: list[Request]
    """Requests ended as recomputed by the step formed last."""
    offloaded: list[OffloadedRequest]
    """Requests offloaded by the step formed last."""

    def schedule(self, now: Time, *, throttle_prefills: bool = False) -> SchedulerOutput:
        """Form the next step."""
        self.recomputed, self.offloaded = [], []
        output = super().schedule(now, throttle_prefills=throttle_prefills)
        output.recomputed = self.recomputed
        return output

    def update_from_output(
        self, step: SchedulerOutput, output: ModelOutput, now: Time
    ) -> list[RequestOutput]:
        """Apply a step; with drafts in it upstream's asynchronous copy reads what is not there (V-048)."""
        drafted = any(share.num_spec_tokens for share in step.scheduled.values())
        if drafted and self.config.async_scheduling and not self._fixed:
            raise UpstreamCrashError(
                "AttributeError",
                "'Request' object has no attribute 'async_tokens_to_discard'",
                "The asynchronous recompute scheduler cannot process a step with drafts (V-048); "
                "`fixed true` models an engine without this.",
            )
        return super().update_from_output(step, output, now)

    def on_shortage(self, step: FormingStep, request: Request) -> Request:
        """The last running request is offloaded, else ended (V-038); producers preempt as usual (V-041)."""
        if self.config.kv_transfer is None or self.requires_kv_delivery:
            return super().on_shortage(step, request)
        victim = self.running[-1]
        if self._offload(victim):
            self.withdraw(step, victim)
            self.preempt_request(
                victim, drop_stale_output=False, needed_by=request, is_offloaded=True
            )
            step.preempted.append(victim)
        else:
            self.finish_requests([victim.request_id], RequestStatus.FINISHED_RECOMPUTED)
            self.recomputed.append(victim)
        return victim

    def admission_open(self, step: FormingStep) -> bool:
        """Nobody is admitted in a step that preempted or ended a request (V-040)."""
        return super().admission_open(step) and not self.recomputed

    def after_update(self, step: SchedulerOutput, outputs: list[RequestOutput]) -> list[RequestOutput]:
        """Requests ended as recomputed are reported before everything else (V-039)."""
        ended = [RequestOutput(request, 0, RequestStatus.FINISHED_RECOMPUTED) for request in step.recomputed]
        return ended + super().after_update(step, outputs)

    def _offload(self, victim: Request) -> bool:
        if not isinstance(self.connector, PreemptionOffloader):
            return False
        block_ids = self.kv_cache_manager.block_ids(victim.request_id)
        computed = victim.num_computed_tokens
        if not self.connector.update_state_before_preempt(victim, block_ids, computed):
            return False
        blocks = sum(len(group) for group in block_ids)
        self.offloaded.append(OffloadedRequest(victim.request_id, computed, blocks))
        return True

    def _settle_placeholders(
        self, request: Request, num_new_tokens: int, is_stale: bool, was_running: bool
    ) -> None:
        super()._settle_placeholders(request, num_new_tokens, is_stale and self._fixed, was_running)
        if request.num_output_placeholders < 0:
            raise UpstreamCrashError(
                "AssertionError",
                "",
                f"Request {request.request_id} was offloaded while a step was in flight, and its token came "
                "back when no output was awaited any more (V-048).",
            )
