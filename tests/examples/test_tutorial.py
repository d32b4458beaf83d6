"""examples/tutorial: the programs show what the tutorial says they show."""

from __future__ import annotations

import pytest

import serq
from tests.shared import ROOT


def figures(name: str, **sets: float) -> dict[str, float]:
    """Observation -> mean."""
    report = serq.run(serq.compile(ROOT / "examples" / "tutorial" / name, sets=sets))
    return {observation: summary.mean for observation, summary in report.observations.items()}


@pytest.mark.parametrize("load", [0.5, 0.75])
def test_a_queue_waits_as_theory_says(load: float) -> None:
    assert figures("1_queue.sq", rate=load / 0.25)["response"] == pytest.approx(0.25 / (1 - load), rel=0.06)


def test_a_fuller_engine_is_slower() -> None:
    calm, busy = figures("2_batching.sq", rate=6), figures("2_batching.sq", rate=20)
    assert calm["ttft"] < busy["ttft"] and calm["tpot"] < busy["tpot"]


def test_too_little_memory_costs_more_than_time() -> None:
    assert (
        figures("3_memory.sq", kv_tokens=8000)["ttft"] > 20 * figures("3_memory.sq", kv_tokens=32000)["ttft"]
    )


def test_a_larger_cache_is_hit_more_often() -> None:
    small, large = figures("4_conversations.sq", kv_tokens=100_000), figures("4_conversations.sq")
    assert large["hit"] > 1.5 * small["hit"] and large["ttft"] < small["ttft"]


def test_routing_by_state_beats_chance_and_lanes_help_the_short() -> None:
    random, shortest = figures("5_replicas.sq", routing=0), figures("5_replicas.sq")
    assert shortest["ttft"] < random["ttft"]
    assert shortest["ttft_short"] < shortest["ttft_long"]
