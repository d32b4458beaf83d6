"""vLLM's engine core around a given scheduler and executor, without processes, models and devices."""

from __future__ import annotations

import queue
from collections import deque
from typing import Any

from vllm.v1.engine.core import EngineCore

from serq.oracle.capture.settings import BuiltScheduler


class BareEngineCore(EngineCore):  # type: ignore[misc]
    """Inherits the turns themselves: step, step_with_batch_queue, post_step and the taking in of aborts."""

    def __init__(self, built: BuiltScheduler, prefill_schedule_interval: int, speculative: bool) -> None:
        # EngineCore's own constructor starts the executor and profiles memory; these are what a turn reads.
        self.vllm_config = built.config
        self.scheduler = built.scheduler
        self.model_executor: Any = None
        self.log_stats = False
        self.aborts_queue: queue.Queue[list[str]] = queue.Queue()
        self.async_scheduling = built.config.scheduler_config.async_scheduling
        self.batch_queue_size = built.config.max_concurrent_batches
        self.batch_queue: deque[Any] | None = None
        if self.batch_queue_size > 1:
            self.batch_queue = deque(maxlen=self.batch_queue_size)
        self.check_for_draft_tokens = speculative
        self.is_ec_consumer = True
        self.is_pooling_model = False
        self._prefill_schedule_interval = prefill_schedule_interval
        self._turns_in_wave = 0

    def turn(self) -> bool:
        """One turn of the busy loop; whether it put tokens on the device."""
        run = self.step if self.batch_queue is None else self.step_with_batch_queue
        _, executed = run()
        self.post_step(executed)
        self._turns_in_wave += 1
        return bool(executed)

    def begin_wave(self) -> None:
        """The engine was idle: the data-parallel prefill cadence starts anew (S-150)."""
        self._turns_in_wave = 0

    def is_idle(self) -> bool:
        """Nothing to schedule and nothing to wait for."""
        return not self.scheduler.has_requests() and not self.batch_queue

    def _should_throttle_prefills(self) -> bool:
        return self._turns_in_wave % self._prefill_schedule_interval != 0
