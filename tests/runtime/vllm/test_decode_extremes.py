"""The fewest and the most computed tokens of decodes that are counted together are those of their rows."""

from __future__ import annotations

import pytest

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.engine_core import AddRequest, EngineCore, Idle, Launch
from serq.runtime.vllm.extents.chains import RunHasher
from serq.runtime.vllm.fast.scheduler import FastScheduler
from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.scheduler_output import ModelOutput
from serq.runtime.vllm.tokens import OutputScript


@pytest.mark.parametrize("asynchronous", [True, False])
def test_extremes_are_those_of_the_rows(asynchronous: bool) -> None:
    config = EngineConfig(
        max_num_batched_tokens=64,
        max_num_seqs=8,
        max_model_len=200,
        num_gpu_blocks=20,
        async_scheduling=asynchronous,
    )
    scheduler, hasher, seen, preempted = FastScheduler(config), RunHasher(16), 0, 0
    core = EngineCore(scheduler)
    requests = [
        Request(
            str(n),
            ((f"prompt {n}", 0, 20 + 13 * n % 50),),
            StopRule(3 + 17 * n % 60),
            OutputScript(f"output {n}"),
            hasher=hasher,
        )
        for n in range(12)
    ]
    core.intake(map(AddRequest, requests))
    while True:
        turn = core.turn(0)
        if isinstance(turn, Idle):
            break
        step = turn.step
        if isinstance(turn, Launch):
            preempted += len(step.preempted_req_ids)
            if step.decodes is not None and step.decodes.count:
                extremes = scheduler.decodes.extremes(scheduler.decodes.scheduled)
                contexts = [row.computed for row in step.batch().rows[: step.decodes.count]]
                assert extremes == (min(contexts), max(contexts))
                assert sum(contexts) == step.decodes.context
                seen += len(set(contexts)) > 1
            continue
        core.finish(ModelOutput({name: int(share.samples) for name, share in step.scheduled.items()}), 0)
        core.wake()
    assert all(request.is_finished for request in requests)
    assert seen > 20 and preempted > 0
