"""A measured run sent through our engines: same arrivals, same lengths, steps priced from tables.

The engines are those that recorded traces prove (`EngineCore`), without a simulation around them: time here
is nothing but step ends and arrivals. Ranks of one expert-parallel group run in lock step, each step ending
for all at once; a rank with nothing to do takes part with a dummy. Other engines run for themselves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from serq.errors import RunError
from serq.kernels.executor import Evidence, Price
from serq.kernels.measured.executor import MeasuredExecutor
from serq.kernels.measured.step_shape import StepShape
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.engine_core import AddRequest, EngineCore, Launch, WaitUntil
from serq.runtime.vllm.extents.chains import RunHasher
from serq.runtime.vllm.extents.manager import suits_extents
from serq.runtime.vllm.fast.scheduler import FastScheduler
from serq.runtime.vllm.request import Hasher, Request
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput
from serq.runtime.vllm.tokens import PrefixHasher

_WAITING_WEIGHT = 4
"""How much more a waiting request counts than a running one when the front end chooses an engine."""


@dataclass(slots=True)
class PredictedRequest:
    """One request of the replay; times in seconds after the first arrival."""

    arrival: float
    rank: int = -1
    queued: float = math.nan
    first: float = math.nan
    last: float = math.nan
    preemptions: int = 0


@dataclass(slots=True)
class Prediction:
    """What the replay came to.

    ``deliveries`` are (step end, tokens) of every step; ``seconds`` device seconds by operator and evidence,
    those of the slowest rank in lock step.
    """

    requests: list[PredictedRequest]
    deliveries: list[tuple[float, int]] = field(default_factory=list)
    seconds: dict[tuple[str, Evidence], float] = field(default_factory=dict)
    steps: int = 0
    hit_tokens: int = 0

    @property
    def makespan(self) -> float:
        """When the last token came."""
        return max(request.last for request in self.requests)


def create_hasher(config: EngineConfig) -> Hasher | None:
    """Whatever names prefixes for engines of ``config``; None where they cache none."""
    if not config.enable_prefix_caching:
        return None
    size = config.block_sizes[1]
    return RunHasher(size) if suits_extents(config) else PrefixHasher(size)


class _FormedStep(NamedTuple):
    """A step not yet run: what its kernels see, and the tokens that it brings."""

    step: SchedulerOutput
    shape: StepShape
    tokens: int


class _Rank:
    """One engine: its core, its steps not yet run, and who was sent to it."""

    def __init__(self, index: int, config: EngineConfig, requests: list[PredictedRequest]) -> None:
        self.index = index
        self.scheduler = FastScheduler(config) if suits_extents(config) else VllmScheduler(config)
        self.core = EngineCore(self.scheduler)
        self.pending: deque[_FormedStep] = deque()
        self.number = 0
        self._requests = requests
        self._untaken: list[PredictedRequest] = []

    @property
    def load(self) -> int:
        """What the front end compares engines by."""
        running = len(self.scheduler.running)
        return _WAITING_WEIGHT * (self.number - running) + running

    def send(self, request: Request) -> None:
        """A request arrives; it is taken in between two steps."""
        predicted = self._requests[int(request.request_id)]
        predicted.rank = self.index
        self.number += 1
        self._untaken.append(predicted)
        self.core.intake((AddRequest(request),))

    def take_turns(self, now: float, prediction: Prediction) -> None:
        """Schedule until the engine waits for a step or for a request."""
        for predicted in self._untaken:
            predicted.queued = now
        self._untaken.clear()
        while True:
            turn = self.core.turn(now)
            if isinstance(turn, Launch):
                self._note(turn.step, prediction)
                self.pending.append(self._formed(turn.step))
            elif isinstance(turn, WaitUntil) and not self.pending[0].shape.tokens:
                self.finish(now)
            else:
                return

    def _note(self, step: SchedulerOutput, prediction: Prediction) -> None:
        for request_id in step.preempted_req_ids:
            self._requests[int(request_id)].preemptions += 1
        for local, _ in step.hits.values():
            prediction.hit_tokens += local

    def _formed(self, step: SchedulerOutput) -> _FormedStep:
        """What is to be known of a step while it is the latest: later, shares are added to it."""
        prefills: list[tuple[int, int]] = []
        contexts: list[int] = []
        tokens = 0
        for share in step.scheduled.values():
            tokens += share.samples
            if share.num_tokens == 1:
                contexts.append(share.num_computed_tokens)
            else:
                prefills.append((share.num_tokens, share.num_computed_tokens))
        shape = StepShape.of_shares(step.total_num_scheduled_tokens, step.num_scheduled, prefills, contexts)
        if step.decodes is not None and step.decodes.count:
            assert isinstance(self.scheduler, FastScheduler)
            decodes = self.scheduler.decodes
            count, context = step.decodes.count, step.decodes.context
            shape = shape.with_decodes(count, context, *decodes.extremes(decodes.scheduled))
            tokens += count
        return _FormedStep(step, shape, tokens)

    def shape(self) -> StepShape | None:
        """The step this engine runs next; None: none with tokens, at most a dummy."""
        return self.pending[0].shape if self.pending and self.pending[0].shape.tokens else None

    def finish(self, now: float) -> int:
        """The oldest step is done; the tokens it brought."""
        step, _, tokens = self.pending.popleft()
        sampled = {request_id: int(share.samples) for request_id, share in step.scheduled.items()}
        for output in self.core.finish(ModelOutput(sampled), now):
            self._deliver(output, now)
        if step.preempted_req_ids:
            self.core.wake()
        return tokens

    def _deliver(self, output: RequestOutput, now: float) -> None:
        predicted = self._requests[int(output.request.request_id)]
        if output.request.num_output_tokens == output.num_new_tokens:
            predicted.first = now
        if output.finished is not None:
            predicted.last = now
            self.number -= 1


class _LockStep:
    """Engines whose steps begin and end together; a group of one is an engine by itself."""

    def __init__(self, ranks: Sequence[_Rank], executor: MeasuredExecutor) -> None:
        self.ranks = ranks
        self.ends_at = math.inf
        self._executor = executor
        self._running: list[_Rank] = []

    def begin(self, now: float, prediction: Prediction) -> None:
        """Let every engine decide, and start the next common step if any has one."""
        for rank in self.ranks:
            rank.take_turns(now, prediction)
        shapes = [rank.shape() for rank in self.ranks]
        self._running = [rank for rank, shape in zip(self.ranks, shapes, strict=True) if shape is not None]
        if not self._running:
            self.ends_at = math.inf
            return
        price = self._executor.price_ranks(shapes)
        self.ends_at = now + price.seconds
        _charge(prediction, price)

    def end(self, prediction: Prediction) -> None:
        """The common step is done."""
        now = self.ends_at
        tokens = sum(rank.finish(now) for rank in self._running)
        prediction.deliveries.append((now, tokens))
        self.begin(now, prediction)


def _charge(prediction: Prediction, price: Price) -> None:
    prediction.steps += 1
    seconds = prediction.seconds
    for operator in price.operators:
        key = operator.operator, operator.evidence
        seconds[key] = seconds.get(key, 0.0) + operator.seconds


def replay(
    requests: Sequence[Request], config: EngineConfig, executor: MeasuredExecutor, engines: int = 1
) -> Prediction:
    """Send ``requests``, named by their place in the list, to ``engines`` engines of one configuration.

    Arrivals may be in any order; a request goes to the engine with the smallest 4 * waiting + running.
    Raises RunError for a request that never ends.
    """
    prediction = Prediction([PredictedRequest(request.arrival_time) for request in requests])
    ranks = [_Rank(index, config, prediction.requests) for index in range(engines)]
    together = executor.model.num_experts > 0
    groups = [_LockStep(ranks, executor)] if together else [_LockStep([rank], executor) for rank in ranks]
    group_of = {rank.index: group for group in groups for rank in group.ranks}
    arrivals = deque(sorted(requests, key=lambda request: request.arrival_time))
    while True:
        group = min(groups, key=lambda group: group.ends_at)
        if arrivals and arrivals[0].arrival_time <= group.ends_at:
            now = arrivals[0].arrival_time
            idle: dict[int, _LockStep] = {}
            while arrivals and arrivals[0].arrival_time == now:
                rank = min(ranks, key=lambda rank: rank.load)
                rank.send(arrivals.popleft())
                group = group_of[rank.index]
                if group.ends_at == math.inf:
                    idle[id(group)] = group
            for group in idle.values():
                group.begin(now, prediction)
        elif group.ends_at < math.inf:
            group.end(prediction)
        else:
            break
    stuck = [index for index, request in enumerate(prediction.requests) if math.isnan(request.last)]
    if stuck:
        raise RunError(
            f"request {stuck[0]} never ends ({len(stuck)} in all): the engine has too few blocks for it",
            code="request-never-fits",
        )
    return prediction
