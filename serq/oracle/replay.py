"""Replay of a scenario in our model: the loop around the engine core, with integer microseconds for time."""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

from serq.errors import RunError
from serq.oracle.connector import ScriptedConnector
from serq.oracle.recorder import TraceRecorder
from serq.oracle.scenario import Event, RequestLine, Scenario
from serq.oracle.tokens import ScenarioTokens
from serq.oracle.worker import Run, ScriptedWorker
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import DecodeBenchConnector, KVConnector
from serq.runtime.vllm.engine_core import (
    AbortRequest,
    AddRequest,
    EngineCore,
    Idle,
    IdleReason,
    Launch,
    Message,
    ResetPrefixCache,
    SetPauseState,
)
from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import PauseState
from serq.runtime.vllm.tokens import PrefixHasher

MAX_STEPS = 400_000
_UNDECIDED_POLL = 1000
AnyMessage = TypeVar("AnyMessage", bound=Message)


def replay(scenario: Scenario) -> dict[str, Any]:
    """The trace of ``scenario`` in our model, as JSON data. Raises RunError if it does not come to an end."""
    return Replay(scenario).run()


class Replay:
    """One scenario being replayed."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        config = scenario.engine_config()
        self.scheduler = VllmScheduler(config, _create_connector(scenario))
        self.recorder = TraceRecorder(scenario, self.scheduler)
        self.core = EngineCore(self.scheduler, self.recorder)
        self.worker = ScriptedWorker(scenario, self.scheduler)
        self.now = 0
        self.stalled = False
        self._runs: deque[Run] = deque()
        self._messages = _messages(scenario, _hasher(config))
        self._aborts = deque((t, m) for t, m in self._messages if isinstance(m, AbortRequest))

    def run(self) -> dict[str, Any]:
        """Replay to the end."""
        while self.advance():
            pass
        return self.recorder.result(self.now, self.stalled)

    def advance(self) -> bool:
        """Take one turn of the engine; False when nothing is left to happen."""
        self.core.intake(_take_due(self._messages, self.now))
        turn = self.core.turn(self.now)
        if isinstance(turn, Launch):
            run = self.worker.launch(turn.step, self.now)
            self._runs.append(run)
            self.recorder.launched(run, self.now)
            if self.recorder.num_steps > MAX_STEPS:
                raise RunError(f"more than {MAX_STEPS} steps", time=self.now)
        elif isinstance(turn, Idle):
            return self._idle(turn.reason)
        else:
            self._finish(self._runs.popleft())
        return True

    def _finish(self, run: Run) -> None:
        """Let the oldest step end; aborts that came while it ran go before its output.

        As in the recorder an abort is tried twice: here, at the end of the first step that ends at or
        after its time, and when it is taken in. That tells when one comes before its request.
        """
        self.now = max(self.now, run.end)
        due = _take_due(self._aborts, self.now)
        self.core.intake(abort for abort in due if abort.request_id in self.scheduler.requests)
        output = self.worker.result(run, self.now)
        outputs = self.core.finish(output, self.now)
        self.recorder.finished(run, output, outputs, self.now)

    def _idle(self, reason: IdleReason) -> bool:
        """Jump to what can change the state; False if nothing can."""
        times = [self._messages[0][0]] if self._messages else []
        if reason is not IdleReason.NO_REQUESTS and self.worker.next_transfer_end is not None:
            times.append(self.worker.next_transfer_end)
        if reason is IdleReason.UNDECIDED:
            self.now += _UNDECIDED_POLL
        elif times:
            self.now = max(self.now, min(times))
        else:
            self.stalled = reason is IdleReason.BLOCKED
            return False
        self.core.wake()
        return True


def _take_due(messages: deque[tuple[int, AnyMessage]], now: int) -> list[AnyMessage]:
    """Take out those of ``messages`` that have happened by ``now``."""
    due = []
    while messages and messages[0][0] <= now:
        due.append(messages.popleft()[1])
    return due


def _hasher(config: EngineConfig) -> PrefixHasher | None:
    """The hasher of an engine's requests, if it caches or transfers prefixes (S-110)."""
    if not config.enable_prefix_caching and config.kv_transfer is None:
        return None
    return PrefixHasher(config.block_sizes[1])


def _create_connector(scenario: Scenario) -> KVConnector | None:
    if scenario.kv_connector is None:
        return None
    if scenario.kv_connector.name == "DecodeBenchConnector":
        return DecodeBenchConnector()
    return ScriptedConnector({line.id: line.kv for line in scenario.requests if line.kv is not None})


def _messages(scenario: Scenario, hasher: PrefixHasher | None) -> deque[tuple[int, Message]]:
    """Everything that will happen, in order: by time, arrivals first, then as listed."""
    tokens = ScenarioTokens(scenario.requests)
    arrivals = [(line.t, 0, AddRequest(_request(line, tokens, hasher))) for line in scenario.requests]
    events = [(event.t, 1, _event(event)) for event in scenario.events]
    ordered = sorted([*arrivals, *events], key=lambda entry: entry[:2])
    return deque((time, message) for time, _, message in ordered)


def _request(line: RequestLine, tokens: ScenarioTokens, hasher: PrefixHasher | None) -> Request:
    stop = line.stop
    count = stop.count if stop is not None and stop.kind == "repeat" else None
    return Request(
        line.id,
        tokens.prompt(line.id),
        StopRule(line.max_tokens, line.min_tokens, count),
        tokens.output(line.id),
        arrival_time=line.t,
        priority=line.priority,
        skip_reading_prefix_cache=line.skip_cache,
        hasher=hasher,
    )


def _event(event: Event) -> Message:
    if event.op == "abort":
        assert event.id is not None
        return AbortRequest(event.id)
    if event.op == "reset_prefix_cache":
        return ResetPrefixCache(event.running)
    assert event.state is not None
    return SetPauseState(PauseState[event.state])
