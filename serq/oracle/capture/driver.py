"""The recording itself: turns of a real engine core on the virtual clock until nothing is left to do."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from serq.oracle.capture.engine_core import BareEngineCore
from serq.oracle.capture.installed import environment
from serq.oracle.capture.mailbox import Mailbox
from serq.oracle.capture.recorder import Recorder
from serq.oracle.capture.scenario import Scenario
from serq.oracle.capture.settings import BuiltScheduler, environment_of
from serq.oracle.capture.trace import assemble
from serq.oracle.capture.worker import VirtualClock, VirtualWorker

_LOOKUP_RETRY = 1000  # microseconds that vLLM's busy loop sleeps when a turn scheduled nothing


class Driver:
    """Owns the engine, the clock and the outside world of one scenario."""

    def __init__(self, scenario: Scenario, max_steps: int) -> None:
        self._scenario = scenario
        self._max_steps = max_steps

    def run(self) -> dict[str, Any]:
        """Record the scenario from its first message to its end."""
        with environment(**environment_of(self._scenario.engine)):
            self._assemble_engine()
            began = perf_counter()
            stalled = self._run_turns()
            seconds = perf_counter() - began
        return assemble(
            self._scenario,
            self._scheduler,
            self._recorder,
            end=self._clock.now,
            stalled=stalled,
            seconds=seconds,
        )

    def _assemble_engine(self) -> None:
        scenario = self._scenario
        built = BuiltScheduler(scenario)
        self._scheduler = built.scheduler
        self._clock = VirtualClock()
        self._recorder = Recorder(scenario, self._clock, self._max_steps)
        self._recorder.attach(built.scheduler)
        interval = scenario.engine.prefill_schedule_interval
        self._engine = BareEngineCore(built, interval, speculative=scenario.spec is not None)
        self._mailbox = Mailbox(scenario, self._recorder, self._engine, built.block_hasher)
        self._worker = VirtualWorker(scenario, self._clock, built.scheduler, self._recorder, self._mailbox)
        self._engine.model_executor = self._worker

    def _run_turns(self) -> bool:
        """Turn until the end; whether requests remain that nothing can help any more."""
        while True:
            self._mailbox.deliver(self._clock.now)
            if self._engine.is_idle():
                arrival = self._mailbox.next_time()
                if arrival is None:
                    return False
                self._clock.advance_to(arrival)
                self._engine.begin_wave()
                continue
            executed = self._engine.turn()
            if executed or self._worker.num_in_flight or self._recorder.progressed:
                continue
            if not self._scheduler.has_requests():
                continue
            if not self._skip_idle_time():
                return True

    def _skip_idle_time(self) -> bool:
        """Nothing could be scheduled. Move to what may change that; False if nothing ever will."""
        if self._awaits_lookup():
            self._clock.advance_to(self._clock.now + _LOOKUP_RETRY)
            return True
        times = (self._worker.transfers.next_end(), self._mailbox.next_time())
        upcoming = [time for time in times if time is not None]
        if upcoming:
            self._clock.advance_to(min(upcoming))
        return bool(upcoming)

    def _awaits_lookup(self) -> bool:
        """Whether some request was set aside only because its connector does not know yet."""
        return any(r.status.name in ("WAITING", "PREEMPTED") for r in self._scheduler.skipped_waiting)
