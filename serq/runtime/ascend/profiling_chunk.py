"""The profiling-chunk scheduler: a step's prefills share one predicted amount of time (V-064)."""

from __future__ import annotations

from serq.runtime.ascend.chunk_predictor import ChunkPredictor, ProfilingChunkConfig
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.request import Request, Time
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import FormingStep
from serq.runtime.vllm.scheduler_output import SchedulerOutput, ShareKind

FIRST_CHUNKS_TIMED = 3
"""Steps of first chunks alone whose time becomes the target (V-063)."""


class ProfilingChunkScheduler(VllmScheduler):
    """Sizes prefill chunks so that a step takes as long as a whole first chunk; decodes cost nothing.

    ``need_timing``: while steps are still being timed, only chunks behind computed tokens are predicted.
    """

    pads_speculation = False
    defers_prefills = False

    def __init__(
        self,
        config: EngineConfig,
        connector: KVConnector | None = None,
        *,
        chunks: ProfilingChunkConfig | None = None,
        need_timing: bool = False,
    ) -> None:
        super().__init__(config, connector)
        chunks = chunks or ProfilingChunkConfig()
        self.predictor = ChunkPredictor(config.max_num_batched_tokens, config.cache_block_size, chunks)
        self.need_timing = need_timing
        self._time_left: float | None = None
        self._targets_set = 0

    def schedule(self, now: Time, *, throttle_prefills: bool = False) -> SchedulerOutput:
        """Form the next step within the target time."""
        self._time_left = self.predictor.target_ms
        return super().schedule(now, throttle_prefills=throttle_prefills)

    def step_took(self, step: SchedulerOutput, seconds: float) -> None:
        """Learn from a step's time: the target from first chunks, the fit from later ones (V-063).

        Decodes alone teach nothing. Timing ends when the fit is complete.
        """
        if not self.need_timing:
            return
        chunks = [
            (share.num_tokens, share.num_computed_tokens)
            for share in step.scheduled.values()
            if not share.is_decode or share.num_computed_tokens < share.request.num_prompt_tokens
        ]
        if any(computed for _, computed in chunks):
            self.predictor.record(chunks, seconds)
            self.need_timing = not self.predictor.history_complete
        elif chunks and self._targets_set < FIRST_CHUNKS_TIMED:
            self._targets_set += 1
            self.predictor.set_target(seconds * 1000)

    def cap_share(self, step: FormingStep, request: Request, num_tokens: int) -> int:
        """A prefill chunk as long as the time left allows."""
        num_tokens = super().cap_share(step, request, num_tokens)
        computed = request.num_computed_tokens or request.num_tokens - num_tokens
        if not _is_prefill(request, computed) or (self.need_timing and computed == 0):
            return num_tokens
        size = self.predictor.predict_chunk_size(computed, self._time_left)
        return num_tokens if size is None else min(num_tokens, size)

    def take_share(
        self, step: FormingStep, request: Request, num_tokens: int, kind: ShareKind, num_spec_tokens: int
    ) -> None:
        """Record a share; when the time is used up the step is full, whatever tokens are left."""
        computed = request.num_computed_tokens
        super().take_share(step, request, num_tokens, kind, num_spec_tokens)
        if self._time_left is not None and _is_prefill(request, computed):
            self._time_left -= self.predictor.predict_time(num_tokens, computed)
            if self._time_left <= 0:
                step.token_budget = 0


def _is_prefill(request: Request, num_computed_tokens: int) -> bool:
    """Whether tokens beyond the newest one are still to be computed."""
    return num_computed_tokens < max(request.num_prompt_tokens, request.num_tokens - 1)
