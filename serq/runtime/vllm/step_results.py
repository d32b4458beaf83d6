"""What a processed step changes: tokens are appended, drafts rejected, requests end (S-096 to S-101)."""

from __future__ import annotations

from collections.abc import Mapping

from serq.runtime.vllm.kv_transfers import KVTransfers
from serq.runtime.vllm.request import Request, RequestStatus
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, ScheduledRequest, SchedulerOutput


class StepResults(KVTransfers):
    """The second half of a step's life."""

    def process_output(self, step: SchedulerOutput, output: ModelOutput) -> list[RequestOutput]:
        """Apply what came of ``step``; what each request got, in the order of the shares (S-096)."""
        if step.total_num_scheduled_tokens:
            self.freer.step_processed()
        failed: set[str] = set()
        if output.invalid_block_ids:
            failed = self.fail_loads(output.invalid_block_ids, step)
        outputs = self._deliver(step, output, failed)
        if failed and not self.recomputes_failed_loads:
            ended = self.finish_requests(sorted(failed), RequestStatus.FINISHED_ERROR)
            outputs += [RequestOutput(request, 0, RequestStatus.FINISHED_ERROR) for request in ended]
        self.finish_transfers(output)
        return outputs

    def _deliver(self, step: SchedulerOutput, output: ModelOutput, failed: set[str]) -> list[RequestOutput]:
        outputs: list[RequestOutput] = []
        stopped_running: list[Request] = []
        stopped_waiting: list[Request] = []
        for request_id, share in step.scheduled.items():
            request = share.request
            is_stale = self._land(share)
            if request.is_finished or request_id in failed or (is_stale and request.drop_stale_output):
                continue
            status = request.status
            delivered = self._deliver_share(share, output.num_sampled.get(request_id, 0), is_stale)
            if delivered is None:
                continue
            outputs.append(delivered)
            if delivered.finished is not None:
                running = status is RequestStatus.RUNNING
                (stopped_running if running else stopped_waiting).append(request)
        self.leave_running(stopped_running)
        self.leave_queues(stopped_waiting)
        return outputs

    @staticmethod
    def _land(share: ScheduledRequest) -> bool:
        """Take a share out of flight; whether it is stale, its request preempted since (S-104)."""
        request = share.request
        request.num_in_flight_tokens -= share.num_tokens
        is_stale = request.num_stale_output_tokens > 0
        if is_stale:
            request.num_stale_output_tokens -= share.num_tokens
        return is_stale

    def _deliver_share(
        self, share: ScheduledRequest, num_sampled: int, is_stale: bool
    ) -> RequestOutput | None:
        """Append one share's tokens and end the request if they say so; None if there were none."""
        if num_sampled == 0:
            return None
        request = share.request
        if share.num_spec_tokens and not is_stale:
            self._reject(request, share.num_spec_tokens - (num_sampled - 1))
        was_running = request.status is RequestStatus.RUNNING
        num_new_tokens = self._append(request, num_sampled)
        if self.config.async_scheduling:
            self._settle_placeholders(request, num_new_tokens, is_stale, was_running)
        if not request.is_finished:
            return RequestOutput(request, num_new_tokens)
        self.free_request(request)
        return RequestOutput(request, num_new_tokens, request.status)

    @staticmethod
    def _reject(request: Request, num_rejected: int) -> None:
        """Set ``request`` back by its rejected drafts; their slots stay allocated (S-097)."""
        if request.num_computed_tokens > 0:
            request.num_computed_tokens -= num_rejected
        if request.num_output_placeholders > 0:
            request.num_output_placeholders -= num_rejected

    def _append(self, request: Request, num_sampled: int) -> int:
        """Append token by token until one of them ends the request; how many were appended (S-098)."""
        for count in range(1, num_sampled + 1):
            request.append_output_token()
            status = request.stop_status(self.config.max_model_len)
            if status is not None:
                request.status = status
                return count
        return num_sampled

    def _settle_placeholders(
        self, request: Request, num_new_tokens: int, is_stale: bool, was_running: bool
    ) -> None:
        """Async: the awaited tokens are there, and what they complete may be published (S-103a)."""
        if not is_stale:
            request.num_output_placeholders -= num_new_tokens
        if was_running:
            known = request.num_computed_tokens - request.num_output_placeholders
            self.kv_cache_manager.cache_blocks(request, known)

    def update_draft_token_ids(self, num_drafts: Mapping[str, int]) -> None:
        """Synchronous scheduling: attach the drafts made in the last step (S-101)."""
        for request_id, count in num_drafts.items():
            request = self.requests.get(request_id)
            if request is not None and not request.is_finished:
                request.num_spec_tokens = 0 if request.is_prefill_chunk else count
