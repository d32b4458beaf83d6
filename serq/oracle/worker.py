"""The worker of a replay: when a step ends, what the model says, which KV transfers are done.

Everything comes from the scenario's script; a step of ``tok > 0`` tokens and ``m`` requests lasts
``base + per_token * tok + per_seq * m``, an empty one nothing. Steps run one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from serq.oracle.connector import Load, ScriptedConnector
from serq.oracle.scenario import Scenario
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_output import ModelOutput, ScheduledRequest, SchedulerOutput


@dataclass(frozen=True, slots=True)
class Run:
    """A step on the worker: its start, cost and end, in microseconds."""

    step: SchedulerOutput
    start: int
    cost: int

    @property
    def end(self) -> int:
        """When it is done."""
        return self.start + self.cost


class ScriptedWorker:
    """Runs steps and transfers on the scenario's terms."""

    def __init__(self, scenario: Scenario, scheduler: VllmScheduler) -> None:
        self._scenario = scenario
        self._scheduler = scheduler
        self._free_at = 0
        self._acceptance = {line.id: line.accept for line in scenario.requests if line.accept}
        self._transfers = TransferScript(scheduler)
        self._num_verified: dict[str, int] = {}
        self._num_drafted: dict[str, int] = {}

    def launch(self, step: SchedulerOutput, now: int) -> Run:
        """Queue ``step``; its loads begin with it."""
        cost = self._cost(step)
        run = Run(step, max(now, self._free_at), cost)
        self._free_at = run.end
        self._transfers.begin(run)
        return run

    def _cost(self, step: SchedulerOutput) -> int:
        tokens = step.total_num_scheduled_tokens
        cost = self._scenario.cost
        return cost.base + cost.per_token * tokens + cost.per_seq * len(step.scheduled) if tokens else 0

    def result(self, run: Run, now: int) -> ModelOutput:
        """What came of ``run``, at ``now``."""
        shares = run.step.scheduled.items()
        output = ModelOutput({request_id: self._sample(share) for request_id, share in shares})
        if self._scenario.spec is not None:
            output.num_drafts = {
                request_id: self._draft(request_id, run.step) if sampled else 0
                for request_id, sampled in output.num_sampled.items()
            }
        self._transfers.report(output, now)
        return output

    def _sample(self, share: ScheduledRequest) -> int:
        """Tokens said: none in a partial prefill, else accepted drafts and one more.

        Drafts of an admission are padding and never accepted.
        """
        if not share.samples:
            return 0
        spec = self._scenario.spec
        if not share.num_spec_tokens or share.kind != "running" or spec is None:
            return 1
        request_id = share.request.request_id
        script = self._acceptance.get(request_id) or spec.accept
        verified = self._num_verified.get(request_id, 0)
        self._num_verified[request_id] = verified + 1
        return 1 + min(script[verified % len(script)], share.num_spec_tokens)

    def _draft(self, request_id: str, step: SchedulerOutput) -> int:
        """Drafts proposed after a sampling step."""
        spec = self._scenario.spec
        assert spec is not None
        script = spec.draft_len or (spec.k,)
        drafted = self._num_drafted.get(request_id, 0)
        self._num_drafted[request_id] = drafted + 1
        return min(script[drafted % len(script)], step.num_spec_tokens)

    @property
    def next_transfer_end(self) -> int | None:
        """When the next transfer ends."""
        return self._transfers.next_end


class TransferScript:
    """The KV transfers under way."""

    def __init__(self, scheduler: VllmScheduler) -> None:
        self._scheduler = scheduler
        self._loads: list[tuple[int, Load]] = []
        self._sends: list[tuple[int, str]] = []

    @property
    def next_end(self) -> int | None:
        """When the next transfer ends."""
        ends = [end for end, _ in self._loads] + [end for end, _ in self._sends]
        return min(ends, default=None)

    def begin(self, run: Run) -> None:
        """Start the loads ordered with a step: synchronous ones end with it."""
        connector = self._scheduler.connector
        if isinstance(connector, ScriptedConnector):
            for load in connector.new_loads:
                self._loads.append((run.start + load.delay if load.is_async else run.end, load))
            connector.new_loads.clear()

    def report(self, output: ModelOutput, now: int) -> None:
        """Report what ended by ``now``; sends ordered since the last report start now."""
        connector = self._scheduler.connector
        if not isinstance(connector, ScriptedConnector):
            return
        self._sends += [(now + delay, request_id) for request_id, delay in connector.new_sends]
        connector.new_sends.clear()
        loaded = [load for end, load in self._loads if end <= now]
        self._loads = [entry for entry in self._loads if entry[0] > now]
        output.finished_recving = sorted({load.request_id for load in loaded if load.is_async})
        output.finished_sending = sorted({request_id for end, request_id in self._sends if end <= now})
        self._sends = [entry for entry in self._sends if entry[0] > now]
        output.invalid_block_ids = set(self._failed_blocks(loaded))

    def _failed_blocks(self, loaded: list[Load]) -> Iterator[int]:
        """The blocks whose load fails, by their place in the first group's table, where they still are."""
        for load in loaded:
            if load.failed_block is not None and load.request_id in self._scheduler.requests:
                table = self._scheduler.kv_cache_manager.block_ids(load.request_id)[0]
                yield from table[load.failed_block : load.failed_block + 1]
