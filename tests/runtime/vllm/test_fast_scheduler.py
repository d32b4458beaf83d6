"""Decodes in bulk, blocks as extents: every recorded and every random scenario goes as with the walk."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.errors import RunError
from serq.oracle.files import find_files, read_oracle
from serq.oracle.generate import generate
from serq.oracle.replay import replay
from serq.oracle.scenario import Scenario, parse_scenario
from tests.runtime.vllm.fast_replay import FastReplay, suits, without_ids

RECORDED = Path(__file__).parents[2] / "oracle"


def recorded() -> list[tuple[str, Scenario]]:
    found = []
    for path in find_files([RECORDED / "vllm", RECORDED / "fresh"]):
        document, _ = read_oracle(path)
        scenario = parse_scenario(document, path.name)
        if suits(scenario):
            found.append((path.name.split(".")[0], scenario))
    return found


SCENARIOS = recorded()


def test_many_recorded_scenarios_can_be_counted() -> None:
    assert len(SCENARIOS) >= 90


@pytest.mark.parametrize(("name", "scenario"), SCENARIOS, ids=[entry[0] for entry in SCENARIOS])
def test_recorded(name: str, scenario: Scenario) -> None:
    fast = FastReplay(scenario)
    assert without_ids(fast.run()) == without_ids(replay(scenario))


@pytest.mark.parametrize("seed", range(150))
def test_random(seed: int) -> None:
    scenario = parse_scenario(generate(seed), str(seed))
    if not suits(scenario):
        return
    try:
        expected = replay(scenario)
    except RunError:
        return
    assert without_ids(FastReplay(scenario).run()) == without_ids(expected)
