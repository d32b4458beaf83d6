"""Arrivals and events on their way to the engine, in the order in which it takes them in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from vllm.sampling_params import RepetitionDetectionParams, SamplingParams
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.request import Request

from serq.oracle.capture.recorder import Recorder
from serq.oracle.capture.scenario import ArrivingRequest, Event, Scenario
from serq.oracle.capture.tokens import EOS_TOKEN, STOP_TOKEN, TokenScript


class Mailbox:
    """Messages sorted by time; at one instant arrivals come first, then events, each in list order."""

    def __init__(self, scenario: Scenario, recorder: Recorder, engine: Any, block_hasher: Any) -> None:
        messages: list[ArrivingRequest | Event] = [*scenario.requests, *scenario.events]
        self._messages = deque(sorted(messages, key=lambda message: message.t))
        self._aborts = deque(m for m in self._messages if isinstance(m, Event) and m.op == "abort")
        self._recorder = recorder
        self._engine = engine
        self._block_hasher = block_hasher
        self._tokens = TokenScript(scenario.requests)

    def deliver(self, now: int) -> None:
        """Hand the engine every message that is due."""
        while self._messages and self._messages[0].t <= now:
            message = self._messages.popleft()
            if isinstance(message, ArrivingRequest):
                self._engine.add_request(self._request(message))
                self._recorder.request_arrived(message.id)
            elif message.op == "abort":
                self._abort(message, self._engine.abort_requests)
            else:
                self._control(message)

    def deliver_aborts(self, now: int) -> None:
        """Hand over the aborts that came in while a step ran: the engine takes them before its output."""
        while self._aborts and self._aborts[0].t <= now:
            self._abort(self._aborts.popleft(), self._engine.aborts_queue.put)

    def next_time(self) -> int | None:
        """When the next message is due."""
        return self._messages[0].t if self._messages else None

    def _abort(self, event: Event, send: Callable[[list[str]], None]) -> None:
        assert event.id is not None
        if self._recorder.request_aborted(event.id):
            send([event.id])

    def _control(self, event: Event) -> None:
        scheduler = self._engine.scheduler
        match event.op:
            case "reset_prefix_cache":
                with self._recorder.resetting() as reset:
                    reset.succeeded = bool(scheduler.reset_prefix_cache(reset_running_requests=event.running))
            case "pause":
                scheduler.set_pause_state(PauseState[event.state])

    def _request(self, arriving: ArrivingRequest) -> Request:
        return Request(
            request_id=arriving.id,
            prompt_token_ids=self._tokens.prompt(arriving.id),
            sampling_params=_sampling_params(arriving),
            pooling_params=None,
            arrival_time=float(arriving.t),
            priority=arriving.priority,
            block_hasher=self._block_hasher,
        )


def _sampling_params(arriving: ArrivingRequest) -> SamplingParams:
    stop = arriving.stop
    kind = None if stop is None else stop.kind
    repetition = None
    if stop is not None and kind == "repeat":
        repetition = RepetitionDetectionParams(max_pattern_size=1, min_count=stop.count)
    params = SamplingParams(
        max_tokens=arriving.max_tokens,
        min_tokens=arriving.min_tokens,
        ignore_eos=kind != "eos",
        stop_token_ids=[STOP_TOKEN] if kind == "token" else None,
        repetition_detection=repetition,
        skip_reading_prefix_cache=arriving.skip_cache or None,
        extra_args={"kv_transfer_params": arriving.kv} if arriving.kv else None,
    )
    if kind == "eos":
        params._eos_token_id = EOS_TOKEN  # the front end learns it from the tokenizer
    return params
