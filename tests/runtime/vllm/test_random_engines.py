"""Random engines under random loads: the invariants hold after every turn, and everybody is served."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from serq.oracle.generate import generate
from serq.oracle.replay import Replay
from serq.oracle.scenario import parse_scenario
from serq.runtime.vllm.config import EngineConfig, SpeculativeConfig
from serq.runtime.vllm.engine_core import (
    AbortRequest,
    AddRequest,
    EngineCore,
    Idle,
    IdleReason,
    Launch,
    ResetPrefixCache,
    SetPauseState,
)
from serq.runtime.vllm.kv_cache_spec import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheGroup,
    MambaSpec,
    SlidingWindowSpec,
)
from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import PauseState
from serq.runtime.vllm.scheduler_output import ModelOutput, SchedulerOutput
from serq.runtime.vllm.tokens import OutputScript, PrefixHasher
from tests.runtime.copying import deep_copy
from tests.runtime.vllm.invariants import check_core, check_step

FULL = KVCacheGroup(FullAttentionSpec(4))
LAYOUTS: list[dict[str, Any]] = [
    {"groups": (FULL,)},
    {"groups": (FULL,), "enable_prefix_caching": False},
    {"groups": (KVCacheGroup(SlidingWindowSpec(4, 9)),)},
    {"groups": (FULL, KVCacheGroup(SlidingWindowSpec(4, 6)), KVCacheGroup(SlidingWindowSpec(8, 12)))},
    {"groups": (KVCacheGroup(ChunkedLocalAttentionSpec(4, 8)), FULL)},
    {"groups": (FULL, KVCacheGroup(MambaSpec(4, "align")))},
    {
        "groups": (KVCacheGroup(FullAttentionSpec(8)), KVCacheGroup(MambaSpec(8, "align"))),
        "prefix_match_unit": 2,
    },
    {"groups": (FULL, KVCacheGroup(MambaSpec(64, "none", 1))), "enable_prefix_caching": False},
    {"groups": (FULL, KVCacheGroup(MambaSpec(4, "all")))},
]


class EngineMachine(RuleBasedStateMachine):
    """An engine core, a worker that accepts drafts at random, and clients without patience."""

    @initialize(
        layout=st.sampled_from(LAYOUTS),
        policy=st.sampled_from(["fcfs", "priority"]),
        overlaps=st.booleans(),
        budget=st.integers(4, 24),
        blocks=st.integers(18, 60),
        threshold=st.sampled_from([0, 3, 10]),
        drafts=st.sampled_from([None, ("ngram", 2), ("mtp", 3)]),
    )
    def start(
        self, layout: Any, policy: Any, overlaps: bool, budget: int, blocks: int, threshold: int, drafts: Any
    ) -> None:
        speculative = None if drafts is None else SpeculativeConfig(*drafts)
        if any(isinstance(group.spec, ChunkedLocalAttentionSpec) for group in layout["groups"]):
            speculative = None
        self.config = EngineConfig(
            **layout,
            policy=policy,
            async_scheduling=overlaps,
            max_num_batched_tokens=budget,
            max_num_seqs=4,
            max_model_len=64,
            num_gpu_blocks=blocks,
            long_prefill_token_threshold=threshold,
            speculative=speculative,
        )
        self.core = EngineCore(VllmScheduler(self.config))
        self.hasher = PrefixHasher(self.config.block_sizes[1])
        self.now = 0
        self.steps: list[SchedulerOutput] = []
        self.requests: list[Request] = []
        self.reported: list[str] = []

    @rule(
        prompt=st.integers(1, 30),
        shared=st.integers(0, 30),
        group=st.integers(0, 1),
        outputs=st.integers(1, 20),
        ends=st.integers(0, 25),
        priority=st.integers(0, 2),
    )
    def arrive(self, prompt: int, shared: int, group: int, outputs: int, ends: int, priority: int) -> None:
        name = f"r{len(self.requests)}"
        shared = min(shared, prompt)
        request = Request(
            name,
            [(f"group {group}", 0, shared), (name, shared, prompt - shared)],
            StopRule(outputs),
            OutputScript(f"output {name}", end_at=ends),
            arrival_time=self.now,
            priority=priority,
            hasher=self.hasher if self.config.enable_prefix_caching else None,
        )
        self.requests.append(request)
        self.core.intake([AddRequest(request)])

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        self.core.intake([AbortRequest(data.draw(st.sampled_from(self.requests)).request_id)])

    @rule(running=st.booleans())
    def reset(self, running: bool) -> None:
        self.core.intake([ResetPrefixCache(running)])

    @rule(state=st.sampled_from(list(PauseState)))
    def pause(self, state: PauseState) -> None:
        self.core.intake([SetPauseState(state)])

    @rule(count=st.integers(1, 12), accepted=st.integers(0, 3))
    def turns(self, count: int, accepted: int) -> None:
        for _ in range(count):
            self.take_turn(accepted)

    def take_turn(self, accepted: int) -> Idle | None:
        self.now += 1
        turn = self.core.turn(self.now)
        if isinstance(turn, Idle):
            self.core.wake()
            return turn
        if isinstance(turn, Launch):
            check_step(self.core.scheduler, turn.step)
            self.steps.append(turn.step)
            self.reported += sorted(turn.step.finished_req_ids)
        else:
            assert turn.step is self.steps.pop(0)
            self.core.finish(self.worked(turn.step, accepted), self.now)
        check_core(self.core)
        return None

    @staticmethod
    def worked(step: SchedulerOutput, accepted: int) -> ModelOutput:
        sampled = {}
        for name, share in step.scheduled.items():
            verified = min(accepted, share.num_spec_tokens) if share.kind == "running" else 0
            sampled[name] = 1 + verified if share.samples else 0
        drafts = {name: step.num_spec_tokens if count else 0 for name, count in sampled.items()}
        return ModelOutput(sampled, drafts)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "core"):
            check_core(self.core)

    def teardown(self) -> None:
        """I-9: with time and no pause everybody ends and is reported once, unless the engine is stuck."""
        if not hasattr(self, "core"):
            return
        self.core.intake([SetPauseState(PauseState.UNPAUSED)])
        for _ in range(3000):
            idle = self.take_turn(1)
            if idle is not None and idle.reason is IdleReason.NO_REQUESTS:
                assert all(request.is_finished for request in self.requests)
                assert sorted(self.reported) == sorted(request.request_id for request in self.requests)
                assert not self.core.scheduler.requests
                break
            if idle is not None:
                break


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(
    max_examples=200, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


def replay_of(seed: int) -> Replay:
    return Replay(parse_scenario(generate(seed), f"seed {seed}"))


@pytest.mark.parametrize("seed", range(9000, 9060))
def test_invariants_hold_in_generated_scenarios(seed: int) -> None:
    run = replay_of(seed)
    known = 0
    while run.recorder.num_steps < 400 and run.advance():
        check_core(run.core)
        if len(run.core.in_flight) > known:
            check_step(run.scheduler, run.core.in_flight[-1])
        known = len(run.core.in_flight)
    check_clock(run.recorder.steps)


def check_clock(steps: list[dict[str, Any]]) -> None:
    """I-10: time never runs back; steps run one after another; an output comes when its step has run."""
    times = [step["t"] for step in steps]
    assert times == sorted(times)
    ran = [step for step in steps if "t1" in step]
    assert all(step["t"] <= step["t0"] <= step["t0"] + step["dt"] <= step["t1"] for step in ran)
    assert all(one["t0"] + one["dt"] <= other["t0"] for one, other in pairwise(ran))


def decisions(step: SchedulerOutput) -> list[Any]:
    shares = [
        (name, share.num_tokens, share.kind, share.num_computed_tokens, share.num_spec_tokens)
        for name, share in step.scheduled.items()
    ]
    return [shares, step.preempted_req_ids, step.hits, step.block_copies, step.new_block_ids_to_zero]


@pytest.mark.parametrize("seed", range(9100, 9112))
def test_l2_an_unchanged_state_decides_the_same(seed: int) -> None:
    """I-11, law L2."""
    run = replay_of(seed)
    while run.recorder.num_steps < 40 and run.advance():
        one, other = deep_copy(run.scheduler), deep_copy(run.scheduler)
        assert decisions(one.schedule(run.now)) == decisions(other.schedule(run.now))


@pytest.mark.parametrize("seed", range(9200, 9212))
def test_l4_looking_changes_nothing(seed: int) -> None:
    """I-12, law L4: a run that is looked at after every turn leaves the same trace."""
    plain, watched = replay_of(seed), replay_of(seed)
    for _ in range(600):
        alive = plain.advance()
        assert watched.advance() == alive
        look_at(watched)
        if not alive:
            break
    assert json.dumps(plain.recorder.steps) == json.dumps(watched.recorder.steps)


def look_at(run: Replay) -> None:
    scheduler = run.scheduler
    manager = scheduler.kv_cache_manager
    _ = scheduler.has_requests, scheduler.num_waiting, manager.block_pool.usage
    list(scheduler.skipped_waiting)
    for request in scheduler.requests.values():
        manager.block_ids(request.request_id)
        manager.get_computed_blocks(request)
        manager.remaining_blocks(request)


def test_outputs_are_not_read_before_they_are_said() -> None:
    """I-13: what a request will say later changes nothing until the step that says it is processed."""
    compared = 0
    for seed in range(9300, 9380):
        scenario = generate(seed)
        for index, line in enumerate(scenario["requests"]):
            stop = line.get("stop") or {}
            if stop.get("kind") in ("eos", "token") and line["id"] not in quoted(scenario):
                compared += compare_with_a_later_end(scenario, index)
                break
    assert compared >= 20


def quoted(scenario: dict[str, Any]) -> set[str]:
    """Ids of requests whose outputs are part of another's prompt."""
    return {line["continues"]["id"] for line in scenario["requests"] if line.get("continues")}


def trace_of(scenario: dict[str, Any]) -> dict[str, Any] | None:
    """The trace, or None where the scenario does not end soon."""
    run = Replay(parse_scenario(scenario, "here"))
    while run.advance():
        if run.recorder.num_steps > 500:
            return None
    return run.recorder.result(run.now, run.stalled)


def compare_with_a_later_end(scenario: dict[str, Any], index: int) -> int:
    """Compare with the scenario in which request ``index`` ends later; 1 if it came to its end."""
    later = copy.deepcopy(scenario)
    later["requests"][index]["stop"]["at"] += 3
    one, other = trace_of(scenario), trace_of(later)
    at = scenario["requests"][index]["stop"]["at"]
    if one is None or other is None or len(one["requests"][index]["tok"]) <= at:
        return 0
    told = one["requests"][index]["tok"]
    before = [[s["t"], s["s"], s["q"], s["free"][:2]] for s in one["steps"] if s["t"] < told[at]]
    assert before == [[s["t"], s["s"], s["q"], s["free"][:2]] for s in other["steps"][: len(before)]]
    return 1
