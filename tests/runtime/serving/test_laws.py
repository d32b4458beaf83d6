"""Laws of the engines on random programs (design_engine.md): reads change nothing, seeds decide all."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import pytest

from serq.ir import nodes
from serq.ir.serving import KVCacheGroup, Speculative, Vllm
from serq.results import Report
from serq.runtime.records import Records
from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.simulation import Simulation
from serq.runtime.trace import Trace
from tests.runtime.copying import deep_copy
from tests.runtime.serving.build import (
    assign,
    branch,
    choose,
    first_site,
    observe,
    pause,
    program,
    request,
    run,
    vllm,
)

READS = (
    *("running(engine[0])", "waiting(engine[1])", "kv_usage(engine[0])", "queue(engine[1])"),
    *("busy(engine[1])", "reusable(engine[0], chat)", "reusable(engine[1], chat)"),
)


def random_engine(random: Random) -> Vllm:
    """An engine in which little fits, so that requests are chunked, preempted and found again."""
    groups: tuple[KVCacheGroup, ...] = ()
    if random.random() < 0.4:
        groups = (KVCacheGroup("full", 16), KVCacheGroup("sliding", 16, window=random.choice([20, 40])))
    speculative = Speculative("mtp", 2, (0.7, 0.5)) if random.random() < 0.3 else None
    return vllm(
        "3 + tokens + 0.25 * context_decode + exponential(2)",
        num_gpu_blocks=random.choice([30, 45, 70]),
        max_model_len=320,
        max_num_batched_tokens=random.choice([32, 64]),
        max_num_seqs=random.choice([3, 8]),
        async_scheduling=random.random() < 0.5,
        enable_prefix_caching=random.random() < 0.8,
        scheduler_reserve_full_isl=random.random() < 0.7,
        groups=groups,
        speculative=speculative,
    )


def random_program(seed: int, *, reads: bool) -> nodes.Program:
    """Conversations at two engines, chosen by load, with reads of live state all over or not."""
    first_site()
    random = Random(seed)
    engine = random_engine(random)
    key = random.choice(["running(engine[j])", "kv_usage(engine[j])", "0 - reusable(engine[j], chat)"])
    chat = request("8 + prompt", "out", handle="chat", on="engine[j]", follows="chat",
                   prefix=("text", 20), abort_after="900 + 400 * text")  # fmt: skip
    looks = [observe(f"look{place}", read) for place, read in enumerate(READS)] if reads else []
    turn = [choose("j", 2, key, "waiting(engine[j])"), *looks, chat, *looks, pause("exponential(60)")]
    session = [assign("out", "4 + exponential(0) + 7 * text"), *turn, *turn, branch("text == 0", *turn)]
    init = [assign("text", "bernoulli(0.5) + bernoulli(0.3)"), assign("prompt", "20 + 13 * text")]
    return program(
        engine, session, members=2, arrive=nodes.Poisson(0.01), init=init, arrivals=25, horizon=1e6
    )


def simulated(definition: nodes.Program, seed: int) -> Simulation:
    return Simulation(definition, seed=seed, horizon=1e6, warmup=0.0, arrivals=25, trace=None)


def tables(records: Records) -> list[Any]:
    return [records.end, records.requests, records.engines]


@pytest.mark.parametrize("seed", range(25))
def test_reading_live_state_changes_nothing(seed: int) -> None:
    found = []
    for reads in (False, True):
        simulation = simulated(random_program(seed, reads=reads), seed)
        simulation.run()
        found.append(repr(tables(simulation.records())))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(3))
def test_same_seed_same_bytes(seed: int) -> None:
    definition = random_program(seed, reads=True)
    first, again, other = (simulated(definition, number) for number in (5, 5, 6))
    for simulation in (first, again, other):
        simulation.run()
    texts = [Report(simulation.records()).to_json() for simulation in (first, again, other)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


@pytest.mark.parametrize("seed", range(10))
def test_scheduling_an_unchanged_state_decides_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At random instants two copies of every scheduler form the same step, and the run is none the wiser."""
    monkeypatch.setattr(SentRequest, "__deepcopy__", lambda sent, memo: sent, raising=False)
    random = Random(seed)
    simulation = simulated(random_program(seed, reads=False), seed)
    undisturbed = simulated(random_program(seed, reads=False), seed)
    undisturbed.run()
    world = simulation.world
    simulation.workload.begin()
    world.settle()
    world.react()
    compared = 0
    while not simulation.drained() and world.advance(1e6):
        if random.random() < 0.05:
            for engine in simulation.deployment.serving.engines:
                one, two = (deep_copy(engine.scheduler).schedule(world.clock.now) for _ in range(2))
                compared += decisions(one) == decisions(two) != []
                assert decisions(one) == decisions(two)
    assert compared
    assert repr(tables(simulation.records())) == repr(tables(undisturbed.records()))


def decisions(step: Any) -> list[tuple[Any, ...]]:
    return [
        (name, share.num_tokens, share.kind, share.num_computed_tokens)
        for name, share in step.scheduled.items()
    ]


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_construction_does_not_matter(seed: int) -> None:
    """Sessions of a trace with distinct times, listed in another order."""
    random = Random(seed)
    engine = random_engine(random)
    rows = [(random.uniform(0, 900), random.randrange(1, 120), random.randrange(1, 30)) for _ in range(30)]
    session = [
        nodes.Turn(id=1),
        request("new", "out"),
        request(7, "out", follows="r"),
        observe("t", "ttft(r)"),
    ]
    found = []
    for order in (rows, random.sample(rows, len(rows))):
        trace = Trace(times=array("d"))
        for time, prompt, output in order:
            trace.add_turn(prompt, output)
            trace.close_session()
            assert trace.times is not None
            trace.times.append(time)
        found.append(repr(tables(run(engine, session, arrive=nodes.Traced(1.0), trace=trace))))
    assert found[0] == found[1]
