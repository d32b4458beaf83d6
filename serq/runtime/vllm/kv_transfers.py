"""KV transfers as the scheduler sees them: loads that end or fail, sends that end (S-133 to S-135)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from serq.runtime.vllm.kv_cache_spec import ceil_div
from serq.runtime.vllm.request import Request, RequestStatus
from serq.runtime.vllm.scheduler_base import SchedulerBase
from serq.runtime.vllm.scheduler_output import ModelOutput, SchedulerOutput


class KVTransfers(SchedulerBase):
    """What becomes of requests whose KV comes from, or goes to, somewhere else."""

    @property
    def recomputes_failed_loads(self) -> bool:
        """Whether a failed load is computed instead of ending the request (S-134)."""
        transfer = self.config.kv_transfer
        return transfer is None or transfer.load_failure_policy == "recompute"

    # ---- loads that ended -----------------------------------------------------

    def promote(self, request: Request) -> bool:
        """Let a request whose load has ended compete again; False while it loads (S-133)."""
        if request.request_id not in self.finished_recving:
            return False
        self.finished_recving.remove(request.request_id)
        if request.request_id in self.failed_recving:
            self.failed_recving.remove(request.request_id)
            self._keep_valid_part(request)
        else:
            self.kv_cache_manager.cache_blocks(request, request.num_computed_tokens)
            if request.num_computed_tokens == request.num_tokens:
                request.num_computed_tokens -= 1
        request.status = RequestStatus.PREEMPTED if request.num_preemptions else RequestStatus.WAITING
        return True

    def _keep_valid_part(self, request: Request) -> None:
        """After a failed load: keep what came before the failure, or start anew if that is nothing."""
        if not request.num_computed_tokens:
            self.kv_cache_manager.free(request)
            return
        self.kv_cache_manager.cache_blocks(request, request.num_computed_tokens)
        self.kv_cache_manager.zero_from(request.request_id, request.num_computed_tokens)

    def finish_transfers(self, output: ModelOutput) -> None:
        """Take note of loads and sends that the worker reports as done (S-133, S-135)."""
        for request_id in output.finished_recving:
            request = self.requests[request_id]
            if request.status is RequestStatus.WAITING_FOR_REMOTE_KVS:
                self.finished_recving.add(request_id)
                self.end_wait(request, "loaded")
            else:
                self.release(request)
        for request_id in output.finished_sending:
            self.release(self.requests[request_id])

    # ---- loads that failed ------------------------------------------------------

    def fail_loads(self, invalid_block_ids: Collection[int], step: SchedulerOutput) -> set[str]:
        """Set back everybody who relies on blocks that could not be loaded (S-134).

        Returns the ids whose output of ``step`` does not count; with policy "fail" they are to end.
        """
        invalid = set(invalid_block_ids)
        loading = [r for r in self.skipped_waiting if r.status is RequestStatus.WAITING_FOR_REMOTE_KVS]
        failed_loads, _ = self._set_back(loading, invalid, step)
        failed_running, lost = self._set_back(self.running, invalid, step)
        if self.recomputes_failed_loads:
            self.failed_recving |= failed_loads
            return failed_running
        for block_id in lost:
            self.kv_cache_manager.block_pool.evict(self.kv_cache_manager.block_pool.blocks[block_id])
        return failed_loads | failed_running

    def _set_back(
        self, requests: Iterable[Request], invalid: set[int], step: SchedulerOutput
    ) -> tuple[set[str], list[int]]:
        """(ids affected, their blocks from the first failed one on), each set back to its valid part.

        A failed block that several requests share is computed by the first of them only.
        """
        affected: set[str] = set()
        lost: list[int] = []
        claimed: set[int] = set()
        for request in requests:
            share = step.scheduled.get(request.request_id)
            computed = request.num_computed_tokens - (0 if share is None else share.num_tokens)
            blocks = self.kv_cache_manager.block_ids(request.request_id)[0]
            covered = blocks[: ceil_div(computed, self._block_size)]
            failed = [index for index, block_id in enumerate(covered) if block_id in invalid]
            if not failed:
                continue
            affected.add(request.request_id)
            own = [index for index in failed if blocks[index] not in claimed]
            claimed.update(blocks[index] for index in own)
            request.num_computed_tokens = own[0] * self._block_size if own else computed
            if own:
                lost += blocks[own[0] :]
        return affected, lost
