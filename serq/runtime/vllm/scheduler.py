"""The scheduler of vLLM 0.27.1's V1 engine: one walk, with the hooks the Ascend family overrides.

Hooks, each with upstream's behaviour as its default: ``cap_share`` (how much of a share a request may
get), ``pick_victim`` and ``on_shortage`` (who gives way, and how), ``admission_open``, ``has_slot`` and
``may_admit`` (who is let in), ``after_update`` (what else a processed step brings about). ``waiting`` may
be replaced by another ``RequestQueue`` while it is empty. Where a relative lacks a rule, a class attribute
says so.
"""

from __future__ import annotations

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.request import Time
from serq.runtime.vllm.running_loop import RunningLoop
from serq.runtime.vllm.scheduler_base import FormingStep, PauseState
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput
from serq.runtime.vllm.step_results import StepResults
from serq.runtime.vllm.waiting_loop import WaitingLoop


class VllmScheduler(RunningLoop, WaitingLoop, StepResults):
    """Forms steps and applies their results, for synchronous and asynchronous scheduling alike."""

    def __init__(self, config: EngineConfig, connector: KVConnector | None = None) -> None:
        super().__init__(config, connector)
        speculative = config.speculative
        self._drafts_by_batch_size = (
            None if speculative is None else speculative.drafts_by_batch_size(config.max_num_seqs)
        )

    def schedule(self, now: Time, *, throttle_prefills: bool = False) -> SchedulerOutput:
        """Form the next step: running requests first, then admissions (S-006)."""
        step = self._begin(now, throttle_prefills)
        self.schedule_running(step)
        if self.admission_open(step):
            self.schedule_waiting(step)
        output = self._close(step)
        self._advance(output)
        return output

    def update_from_output(
        self, step: SchedulerOutput, output: ModelOutput, now: Time
    ) -> list[RequestOutput]:
        """Apply the results of ``step``; what each request got, in order (S-096)."""
        self.now = now
        return self.after_update(step, self.process_output(step, output))

    def after_update(self, step: SchedulerOutput, outputs: list[RequestOutput]) -> list[RequestOutput]:
        """Hook: what a step brought about besides its tokens; the outputs to report."""
        return outputs

    def step_took(self, step: SchedulerOutput, seconds: float) -> None:
        """Hook: the device needed ``seconds`` for ``step``, whose results were just applied."""

    # ---- phases of a step -----------------------------------------------------

    def _begin(self, now: Time, throttle_prefills: bool) -> FormingStep:
        """Open a step: its budget, and whether prefills are held back (S-143, S-150)."""
        self.now = now
        self.waiting.begin_step(now)
        self.kv_cache_manager.new_step_starts()
        throttles = throttle_prefills and self.defers_prefills and not self.prefill_capacity_bound
        return FormingStep(
            token_budget=0 if self.pause_state is PauseState.PAUSED_ALL else self._token_budget,
            num_free_blocks=self.kv_cache_manager.block_pool.num_free_blocks,
            defer_prefills=throttles and any(not request.is_prefill_chunk for request in self.running),
        )

    def _close(self, step: FormingStep) -> SchedulerOutput:
        """Gather what the step reports: shares, copies, blocks to zero, drafts to make (S-059, S-060)."""
        manager = self.kv_cache_manager
        common = [0] * len(self.config.groups)
        if self.running:
            common = manager.num_common_prefix_blocks(self.running[0].request_id)
        finished, self.finished_req_ids = self.finished_req_ids, set()
        return SchedulerOutput(
            scheduled=step.scheduled,
            total_num_scheduled_tokens=sum(share.num_tokens for share in step.scheduled.values()),
            preempted_req_ids=[request.request_id for request in step.preempted],
            finished_req_ids=finished,
            hits=step.hits,
            num_common_prefix_blocks=common,
            block_copies=self._order_copies(),
            new_block_ids_to_zero=self._order_zeroing(),
            num_spec_tokens=self._drafts_for(len(step.scheduled)),
            num_free_blocks_before=step.num_free_blocks,
        )

    def _order_copies(self) -> list[tuple[int, int]]:
        """The block copies of this step; their ends are let go now that they are ordered (S-129)."""
        if self.requires_kv_delivery:
            self.kv_cache_manager.pin_tail_offloads()
        copies = self.kv_cache_manager.take_block_copies()
        if copies:
            self.freer.free_copies([block for pair in copies for block in pair])
        return [(source.block_id, target.block_id) for source, target in copies]

    def _order_zeroing(self) -> list[int]:
        """The blocks to zero in this step, without those a load is about to fill (S-122)."""
        block_ids = self.kv_cache_manager.take_new_block_ids()
        if not self.config.has_mamba:
            return []
        skipped, self._skip_zero_block_ids = self._skip_zero_block_ids, set()
        return [block_id for block_id in block_ids if block_id not in skipped]

    def _drafts_for(self, num_scheduled: int) -> int:
        """Drafts each request gets after this step (S-102)."""
        if self._drafts_by_batch_size is None or num_scheduled == 0:
            return self.config.num_spec_tokens
        return self._drafts_by_batch_size[num_scheduled]

    def _advance(self, output: SchedulerOutput) -> None:
        """Count the shares as computed, and under async scheduling await their tokens (S-060, S-103a)."""
        if output.total_num_scheduled_tokens:
            self.freer.step_scheduled()
        for share in output.scheduled.values():
            request = share.request
            request.num_computed_tokens += share.num_tokens
            request.num_in_flight_tokens += share.num_tokens
            request.last_sched_seq = self.freer.scheduled
            known = request.num_tokens + request.num_output_placeholders
            request.is_prefill_chunk = request.num_computed_tokens < known
            share.samples = not request.is_prefill_chunk
            if share.samples:
                self.inflight_prefills.discard(request)
                if self.config.async_scheduling:
                    request.num_output_placeholders += 1 + share.num_spec_tokens
                    request.num_spec_tokens = output.num_spec_tokens
