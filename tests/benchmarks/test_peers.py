"""The adapters: what each asks of its peer, and, where the peer is installed, what the peer answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.command import variable
from benchmarks.jobs import AFFINE, Engine
from benchmarks.measure import find_python, measure
from benchmarks.peers import all_peers
from benchmarks.peers.base import Peer
from benchmarks.peers.vllm_scheduler import Arrival
from benchmarks.workloads import WORKLOADS, Workload, evenly

PEERS = {peer.name: peer for peer in all_peers()}
AFFINE_PEERS = [peer for peer in PEERS.values() if peer.price == AFFINE]


def python_of(peer: Peer) -> str:
    """The Python that has ``peer``; without one the test is skipped."""
    python = find_python(peer, os.environ.get(variable(peer.name)))
    if python is None:
        pytest.skip(f"{peer.name} is not here, and {variable(peer.name)} names no Python that has it")
    return python


@pytest.mark.parametrize("peer", AFFINE_PEERS, ids=lambda peer: peer.name)
def test_a_step_has_its_price(peer: Peer, tmp_path: Path) -> None:
    """Two requests far apart, 100 prompt tokens at most 64 a step, 3 outputs: 64, 36, 1 and 1 tokens."""
    python = python_of(peer)
    engine = Engine(max_num_seqs=8, max_num_batched_tokens=64)
    job = Workload("two", "", 2, evenly(10.0, 100, 3), engine).write(tmp_path, tmp_path, 2)
    outcome = measure(python, peer, job, 120).outcome
    assert (outcome.requests, outcome.steps, outcome.preemptions) == (2, 8, 0)
    assert outcome.mean_ttft == pytest.approx(2 * 0.010 + 100 * 50e-6, rel=1e-9)
    assert outcome.mean_e2e == pytest.approx(4 * 0.010 + 102 * 50e-6, rel=1e-9)


@pytest.mark.parametrize("name", ["Vidur", "vLLM scheduler"])
def test_replicas_get_requests_in_turn(name: str, tmp_path: Path) -> None:
    """Four requests at once, one output each: alone on four replicas, two in a step on two."""
    peer = PEERS[name]
    python = python_of(peer)
    for replicas, tokens in ((4, 100), (2, 200)):
        workload = Workload("four", "", 4, evenly(0.0, 100, 1), Engine(replicas=replicas))
        job = workload.write(tmp_path, tmp_path, 4)
        outcome = measure(python, peer, job, 120).outcome
        assert outcome.steps == replicas
        assert outcome.mean_ttft == pytest.approx(0.010 + tokens * 50e-6, rel=1e-9)


def test_the_real_scheduler_finds_the_prefixes_that_prompts_share(tmp_path: Path) -> None:
    """Two prompts of 600 tokens, 10 s apart, whose first 512 are the same: 600 and 88 tokens are computed."""
    peer = PEERS["vLLM scheduler"]
    python = python_of(peer)
    workload = Workload(
        "shared", "", 2, lambda count, traces: iter([(0.0, 600, 1, (7, 8)), (10.0, 600, 1, (7, 9))]),
        Engine(prefix_caching=True), shares_prefixes=True,
    )  # fmt: skip
    outcome = measure(python, peer, workload.write(tmp_path, tmp_path, 2), 120).outcome
    assert outcome.mean_ttft == pytest.approx(0.010 + (600 + 88) / 2 * 50e-6, rel=1e-9)


def test_vidur_runs_what_it_models(tmp_path: Path) -> None:
    """No prefix caching, no preemptions."""
    left_out = [
        workload.name for workload in WORKLOADS
        if PEERS["Vidur"].refuses(workload.write(tmp_path, tmp_path, 40)) is not None
    ]  # fmt: skip
    assert left_out == ["azure-5k-cached", "kv-tight", "mooncake"]


def test_tokens_are_equal_where_hash_ids_are() -> None:
    one, other = Arrival(0.0, [3, 4], 700, 1).tokens(), Arrival(0.0, [3, 5], 600, 1).tokens()
    assert (len(one), len(other)) == (700, 600)
    assert one[:512] == other[:512] and not set(one[512:]) & set(other[512:])
    assert len(set(one)) == 700


def test_the_workloads_of_the_table() -> None:
    """Cuts of a trace, long decodes, saturated chats, preemptions, replicas, prefixes, a million."""
    engines = {workload.name: workload.engine for workload in WORKLOADS}
    counts = {workload.name: workload.count for workload in WORKLOADS}
    assert [counts[f"azure-{size}"] for size in ("1k", "5k", "20k")] == [1_000, 5_000, 19_366]
    assert (counts["long"], counts["million"]) == (200, 1_000_000)
    assert [engines[f"chat-{running}"].max_num_seqs for running in (64, 256)] == [64, 256]
    assert engines["replicas-8"].replicas == 8
    assert engines["mooncake"].prefix_caching
    assert [workload.name for workload in WORKLOADS if workload.preempts] == ["kv-tight"]
