"""A `vllm` stage as sessions of an open run see it when they arrive."""

from __future__ import annotations

from serq.runtime.clock import Clock
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.leaving import ClockReason, LeaveOpenRun


class OpenStage:
    """One member. Reads are those of the language, of the state before the arrival."""

    __slots__ = ("_clock", "engine")

    def __init__(self, engine: OpenEngine, clock: Clock) -> None:
        self.engine = engine
        self._clock = clock

    def _now(self) -> OpenEngine:
        """The engine as it stands now. Which of two things of one instant is first, only the clock tells."""
        engine, now = self.engine, self._clock.now
        engine.run(now)
        if engine.ends_at(now):
            raise LeaveOpenRun(ClockReason.TIE)
        return engine

    def queue_length(self) -> float:
        """`queue`: requests sent that have not ended."""
        return float(self._now().figures.number)

    def busy(self) -> float:
        """`busy`: requests that run."""
        return self.running()

    def running(self) -> float:
        """`running`: requests that run, which need not be in the step under way."""
        return float(len(self._now().running))

    def waiting(self) -> float:
        """`waiting`: requests sent and not running."""
        engine = self._now()
        return float(engine.figures.number - len(engine.running))

    def kv_usage(self) -> float:
        """`kv_usage`: share of the blocks that requests hold, 0 to 1."""
        engine = self._now()
        return 1.0 - engine.free / engine.usable if engine.usable else 0.0
