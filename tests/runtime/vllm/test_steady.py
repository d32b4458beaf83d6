"""Law L1: following a steady run is the same as so many turns of the engine core, on any state met."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.engine_core import AbortRequest, AddRequest, EngineCore, Launch, WaitUntil
from serq.runtime.vllm.extents.chains import RunHasher
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.fast.scheduler import FastScheduler
from serq.runtime.vllm.fast.steady_run import SteadyRun
from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.scheduler_output import ModelOutput
from serq.runtime.vllm.tokens import OutputScript
from tests.runtime.copying import deep_copy


class Machine:
    """A core, and a model that says one token a sampling row; time is the number of the turn."""

    def __init__(self, **flags: Any) -> None:
        self.config = EngineConfig(**flags)
        self.scheduler = FastScheduler(self.config)
        self.core = EngineCore(self.scheduler)
        self.hasher = RunHasher(16) if self.config.enable_prefix_caching else None
        self.now = 0.0

    def add(
        self, name: str, prompt: int, output: int, *, end_at: int | None = None, priority: int = 0
    ) -> None:
        pieces = [("shared", 0, prompt // 2), (name, 0, prompt - prompt // 2)]
        script = OutputScript(f"out {name}", end_at=end_at)
        request = Request(
            name, pieces, StopRule(output), script,
            arrival_time=self.now, priority=priority, hasher=self.hasher,
        )  # fmt: skip
        self.core.intake([AddRequest(request)])

    def iterate(self) -> bool:
        """Let the oldest step end and form what follows; False: nothing is under way."""
        self.now += 1.0
        self._form()
        if not self.core.in_flight:
            return False
        step = self.core.in_flight[0]
        sampled = {name: int(share.samples) for name, share in step.scheduled.items()}
        self.core.finish(ModelOutput(sampled), self.now)
        self._form()
        return True

    def _form(self) -> None:
        while isinstance(self.core.turn(self.now), Launch):
            pass

    def state(self) -> Any:
        """Everything but ids and memos, every request told."""
        scheduler = deep_copy(self.scheduler)
        scheduler.tell_all()
        tables = scheduler.kv_cache_manager.tables
        return (
            [_request(request, tables) for request in scheduler.running],
            [_request(request, tables) for request in scheduler.waiting],
            scheduler.kv_cache_manager.block_pool.num_free_blocks,
            [(s.total_num_scheduled_tokens, list(s.scheduled), s.decodes and s.decodes.count,
              s.decodes and s.decodes.context, s.decodes and s.decodes.slots)
             for s in self.core.in_flight],
            self.core.wave_step,
            (scheduler.decodes.count, scheduler.decodes.context, scheduler.decodes.held),
            scheduler.decodes.coming_needs(),
        )  # fmt: skip


def _request(request: Request, tables: Any) -> tuple[Any, ...]:
    table = tables.get(request.request_id)
    return (
        request.request_id, request.status, request.num_tokens, request.num_computed_tokens,
        request.num_output_tokens, request.num_output_placeholders, request.num_in_flight_tokens,
        request.tokens.runs, len(request.block_hashes), table and (table.held, table.published),
    )  # fmt: skip


def random_machine(random: Random) -> Machine:
    return Machine(
        max_num_batched_tokens=random.choice([32, 64, 512]),
        max_num_seqs=random.choice([2, 5, 32]),
        max_model_len=256,
        num_gpu_blocks=random.choice([30, 60, 500]),
        async_scheduling=random.random() < 0.6,
        enable_prefix_caching=random.random() < 0.7,
        policy=random.choice(["fcfs", "fcfs", "priority"]),
    )


@pytest.mark.parametrize("seed", range(60))
def test_following_a_run_is_so_many_turns(seed: int) -> None:
    random = Random(seed)
    machine = random_machine(random)
    followed = 0
    for number in range(120):
        if random.random() < 0.2:
            end_at = random.choice([None, None, random.randrange(1, 30)])
            output = random.randrange(1, 60)
            machine.add(f"r{number}", random.randrange(2, 120), output, end_at=end_at, priority=number % 3)
        if random.random() < 0.03 and machine.scheduler.running:
            machine.core.intake([AbortRequest(random.choice(machine.scheduler.running).request_id)])
        machine.iterate()
        run = machine.core.steady()
        if not isinstance(run, SteadyRun) or any(step.scheduled for step in machine.core.in_flight):
            continue
        count = random.randint(1, run.limit)
        needs = [run.needs[place % len(run.needs)] for place in range(count)]
        if run.tail is not None and count == run.limit:
            needs[-1] = run.tail[3]
        if sum(needs) > run.free:
            continue
        walked = deep_copy(machine)
        for _ in range(count):
            walked.iterate()
        machine.now += count
        machine.core.advance(count, machine.now)
        assert machine.state() == walked.state()
        followed += count
    assert followed > 0


def test_a_steady_run_ends_with_the_first_request() -> None:
    """8 outputs: one comes with the prompt, and the step that brings the last one is walked."""
    machine = Machine(max_num_batched_tokens=512, num_gpu_blocks=500, max_model_len=256)
    machine.add("a", 20, 8)
    machine.add("b", 20, 50)
    machine.iterate()
    run = machine.core.steady()
    assert isinstance(run, SteadyRun)
    assert (run.limit, run.count, run.context) == (6, 2, 42)
    assert isinstance(machine.core.turn(machine.now), WaitUntil)


def test_what_is_not_steady_has_a_name() -> None:
    machine = Machine(max_num_batched_tokens=32, max_num_seqs=32, num_gpu_blocks=500, max_model_len=256)
    machine.add("long", 100, 9)
    machine.iterate()
    assert machine.core.steady() is WalkReason.PREFILL
    for _ in range(4):
        machine.iterate()
    machine.add("other", 10, 9)
    assert machine.core.steady() is WalkReason.MESSAGE
