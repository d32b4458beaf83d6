"""A scenario replayed with the scheduler that counts decodes in bulk, every share written out to compare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from serq.oracle.recorder import TraceRecorder
from serq.oracle.replay import Replay, _messages
from serq.oracle.scenario import Scenario
from serq.oracle.worker import Run, ScriptedWorker
from serq.runtime.vllm.engine_core import EngineCore, Idle, Launch
from serq.runtime.vllm.extents.chains import RunHasher
from serq.runtime.vllm.extents.manager import suits_extents
from serq.runtime.vllm.fast.decode_set import Decoding
from serq.runtime.vllm.fast.scheduler import FastScheduler
from serq.runtime.vllm.scheduler_output import RequestOutput, ScheduledRequest, SchedulerOutput

IDS = frozenset({"blk", "cpb"})
"""What tells blocks apart, or is not counted in bulk."""


def suits(scenario: Scenario) -> bool:
    config = scenario.engine_config()
    return suits_extents(config) and scenario.kv_connector is None and config.prefill_schedule_interval == 1


def without_ids(trace: Any) -> Any:
    if isinstance(trace, dict):
        return {name: without_ids(value) for name, value in trace.items() if name not in IDS}
    return [without_ids(value) for value in trace] if isinstance(trace, list) else trace


class FastReplay(Replay):
    """The loop of a replay over a :class:`FastScheduler`, which nobody asks to write anything down."""

    scheduler: FastScheduler

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        config = scenario.engine_config()
        self.scheduler = FastScheduler(config)
        self.recorder = TraceRecorder(scenario, self.scheduler)
        self.core = EngineCore(self.scheduler, self.recorder)
        self.worker = ScriptedWorker(scenario, self.scheduler)
        hasher = RunHasher(config.block_sizes[1]) if config.enable_prefix_caching else None
        self._messages = _messages(scenario, hasher)  # type: ignore[arg-type]
        self._aborts.clear()
        self._aborts.extend((t, m) for t, m in self._messages if hasattr(m, "request_id"))
        self._counted: dict[int, list[Decoding]] = {}
        self.bulk_shares = 0

    def advance(self) -> bool:
        due = [self._messages.popleft()[1] for _ in range(sum(t <= self.now for t, _ in self._messages))]
        self.core.intake(due)
        turn = self.core.turn(self.now)
        if isinstance(turn, Launch):
            run = self.worker.launch(self.written_out(turn.step), self.now)
            self._runs.append(run)
            self.recorder.launched(run, self.now)
        elif isinstance(turn, Idle):
            return self._idle(turn.reason)
        else:
            self._finish(self._runs.popleft())
        return True

    def written_out(self, step: SchedulerOutput) -> SchedulerOutput:
        """The step with a share for everybody who has one, in order."""
        shares = dict(step.scheduled)
        decodes = self.scheduler.decodes
        counted = []
        for member in decodes.members.values():
            if member.joined < decodes.scheduled and not (
                member.foreseen and member.last < decodes.scheduled
            ):
                request = member.request
                computed = request.num_computed_tokens + decodes.scheduled - member.scheduled - 1
                shares[request.request_id] = ScheduledRequest(request, 1, "running", computed, 0, True, True)
                counted.append(request)
        if step.decodes is not None:
            assert len(counted) == step.decodes.count
            told = [shares[request.request_id].num_computed_tokens for request in counted]
            assert sum(told) == step.decodes.context
            size = self.scheduler.kv_cache_manager.block_size
            assert sum(-(-(computed + 1) // size) for computed in told) * size == step.decodes.slots
            self.bulk_shares += len(counted)
        ordered = dict(sorted(shares.items(), key=lambda entry: entry[1].request.admission))
        whole = replace(step, scheduled=ordered)
        self._counted[id(whole)] = [decodes.members[request] for request in counted]
        return whole

    def _finish(self, run: Run) -> None:
        self.now = max(self.now, run.end)
        due = []
        while self._aborts and self._aborts[0][0] <= self.now:
            due.append(self._aborts.popleft()[1])
        self.core.intake(abort for abort in due if abort.request_id in self.scheduler.requests)
        alive = [m for m in self._counted.pop(id(run.step)) if not m.gone]
        output = self.worker.result(run, self.now)
        outputs = self.core.finish(output, self.now)
        outputs += [RequestOutput(member.request, 1) for member in alive if not member.gone]
        outputs.sort(key=lambda entry: entry.request.admission)
        self.recorder.finished(run, output, outputs, self.now)
