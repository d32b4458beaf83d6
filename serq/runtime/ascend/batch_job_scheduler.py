"""The BatchJobAware scheduler: the base walk over a queue that learns how long jobs' answers are (V-036)."""

from __future__ import annotations

from serq.runtime.ascend.batch_job_aware import (
    BatchJobAwareConfig,
    BatchJobAwareRequestQueue,
    admission_budget,
)
from serq.runtime.ascend.block_reserve import RunningBlockReserver
from serq.runtime.ascend.job_decode import JobDecodeEstimator, job_name
from serq.runtime.upstream_defects import UpstreamCrashError
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.request import Request, RequestStatus, Time
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import FormingStep
from serq.runtime.vllm.scheduler_output import RequestOutput, SchedulerOutput
from serq.runtime.vllm.waiting_loop import Start, Verdict


class BatchJobAwareScheduler(VllmScheduler):
    """Admits by predicted answer length and by the blocks that running requests leave (V-019 to V-036)."""

    def __init__(
        self,
        config: EngineConfig,
        connector: KVConnector | None = None,
        *,
        jobs: BatchJobAwareConfig | None = None,
    ) -> None:
        super().__init__(config, connector)
        jobs = jobs or BatchJobAwareConfig()
        self.estimator = JobDecodeEstimator(jobs.max_jobs, refuses=jobs.refuses_jobs)
        self.reserver = RunningBlockReserver(
            lambda: self.running,
            block_size=config.cache_block_size,
            max_num_scheduled_tokens=config.token_budget,
            num_lookahead_tokens=config.num_lookahead_tokens,
            margin_blocks=jobs.reserve_margin_blocks,
            max_blocks=jobs.reserve_max_blocks,
        )
        self.waiting = BatchJobAwareRequestQueue(jobs, self.estimator, self._budget_tokens)

    def schedule(self, now: Time, *, throttle_prefills: bool = False) -> SchedulerOutput:
        """Form the next step; the reserve is estimated anew (V-028)."""
        self.reserver.invalidate()
        return super().schedule(now, throttle_prefills=throttle_prefills)

    def after_update(self, step: SchedulerOutput, outputs: list[RequestOutput]) -> list[RequestOutput]:
        """Learn the lengths of answers that ended by themselves (V-023)."""
        for output in super().after_update(step, outputs):
            if output.finished is RequestStatus.FINISHED_STOPPED:
                job = job_name(output.request.request_id)
                self.estimator.observe(job, output.request.num_output_tokens)
        return outputs

    def _budget_tokens(self) -> int:
        free_blocks = self.kv_cache_manager.block_pool.num_free_blocks
        return admission_budget(free_blocks, self.reserver.predict(), self.config.cache_block_size)

    def _admit(self, step: FormingStep, request: Request, start: Start, share: int, num_pads: int) -> None:
        _check_alive(request)
        super()._admit(step, request, start, share, num_pads)

    def _begin_load(self, step: FormingStep, request: Request, start: Start) -> Verdict:
        _check_alive(request)
        return super()._begin_load(step, request, start)


def _check_alive(request: Request) -> None:
    """Die of a request that was aborted while it was the queue's choice (V-034)."""
    if request.is_finished:
        raise UpstreamCrashError(
            "RuntimeError",
            f"Invalid request status: {request.status.name}",
            f"Request {request.request_id} was aborted after it had been chosen for admission, and the queue "
            "kept the choice (V-034); `fixed true` models an engine without this.",
        )
