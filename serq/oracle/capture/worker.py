"""The device behind the scheduler: steps take scripted time one after another and sample scripted tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput

from serq.oracle.capture.mailbox import Mailbox
from serq.oracle.capture.recorder import Recorder
from serq.oracle.capture.scenario import Scenario
from serq.oracle.capture.speculation import SpeculationScript
from serq.oracle.capture.tokens import DRAFT_TOKEN, TokenScript
from serq.oracle.capture.transfers import Transfers


class VirtualClock:
    """The instant, in microseconds. It moves when the engine waits for the device, and never backward."""

    def __init__(self) -> None:
        self.now = 0

    def advance_to(self, time: int) -> None:
        """Wait until ``time``."""
        self.now = max(self.now, time)


@dataclass(frozen=True, slots=True)
class LaunchedStep:
    """A step on the device. To vLLM's engine core it is the future of the model's output."""

    worker: VirtualWorker
    index: int
    output: Any
    start: int
    duration: int
    sampling: frozenset[str]
    admitted: frozenset[str]

    @property
    def end(self) -> int:
        """When its output is ready."""
        return self.start + self.duration

    def result(self, timeout: float | None = None) -> ModelRunnerOutput:
        """Wait for the step and take its output."""
        return self.worker.finish(self)


class VirtualWorker:
    """Takes the place of vLLM's model executor."""

    def __init__(
        self, scenario: Scenario, clock: VirtualClock, scheduler: Any, recorder: Recorder, mailbox: Mailbox
    ) -> None:
        self._cost = scenario.cost
        self._clock = clock
        self._scheduler = scheduler
        self._recorder = recorder
        self._mailbox = mailbox
        self._tokens = TokenScript(scenario.requests)
        self._speculation = (
            None if scenario.spec is None else SpeculationScript(scenario.spec, scenario.requests)
        )
        self._device_free = 0
        self._latest: LaunchedStep | None = None
        self._drafts: DraftTokenIds | None = None
        self.transfers = Transfers(scheduler)
        self.num_in_flight = 0

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> LaunchedStep:
        """Put a step on the device, behind the one that runs."""
        shares = scheduler_output.num_scheduled_tokens
        start = max(self._clock.now, self._device_free)
        step = LaunchedStep(
            worker=self,
            index=self._recorder.num_steps - 1,
            output=scheduler_output,
            start=start,
            duration=self._cost.of(scheduler_output.total_num_scheduled_tokens, len(shares)),
            sampling=frozenset(r for r in shares if not self._scheduler.requests[r].is_prefill_chunk),
            admitted=self._recorder.admitted,
        )
        self._device_free = step.end
        self._latest = step
        self.num_in_flight += bool(shares)
        self.transfers.step_launched(step.start, step.end)
        return step

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> LaunchedStep | None:
        """The same future: a step executes and samples in one go."""
        return self._latest

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        """The drafts proposed after the step that was finished last."""
        return self._drafts

    def finish(self, step: LaunchedStep) -> ModelRunnerOutput:
        """Wait for the step's end; aborts that came meanwhile are taken in before its output (S-140)."""
        self._clock.advance_to(step.end)
        self.num_in_flight -= bool(step.output.num_scheduled_tokens)
        self._recorder.step_executed(step.index, step.start, step.duration, self._clock.now)
        self._mailbox.deliver_aborts(self._clock.now)
        request_ids = list(step.output.num_scheduled_tokens)
        sampled = [self._sample(step, request_id) for request_id in request_ids]
        if self._speculation is not None:
            limit = step.output.num_spec_tokens_to_schedule
            drafts = [
                [DRAFT_TOKEN] * self._speculation.num_proposed(request_id, limit) if tokens else []
                for request_id, tokens in zip(request_ids, sampled, strict=True)
            ]
            self._drafts = DraftTokenIds(request_ids, drafts)
        report = self.transfers.report(self._clock.now)
        if report is not None:
            self._recorder.transfers_ended(step.index, report.received, report.sent)
        return ModelRunnerOutput(
            req_ids=request_ids,
            req_id_to_index={request_id: row for row, request_id in enumerate(request_ids)},
            sampled_token_ids=sampled,
            kv_connector_output=None if report is None else report.as_output(),
        )

    def _sample(self, step: LaunchedStep, request_id: str) -> list[int]:
        """One token and the accepted drafts; none in the middle of a prefill (S-096)."""
        if request_id not in step.sampling:
            return []
        num_tokens = 1
        drafts = step.output.scheduled_spec_decode_tokens.get(request_id, ())
        if drafts and request_id not in step.admitted:  # in an admission step the drafts are padding (S-107)
            assert self._speculation is not None
            num_tokens += self._speculation.num_accepted(request_id, len(drafts))
        request = self._scheduler.requests.get(request_id)
        first = 0 if request is None else request.num_output_tokens
        return [self._tokens.output(request_id, first + offset) for offset in range(num_tokens)]
