"""Shrinking keeps what is asked for and takes away the rest."""

from typing import Any

from serq.oracle.capture import Scenario
from serq.oracle.generate import generate
from serq.oracle.generate.shrink import shrink


def prompts(scenario: dict[str, Any]) -> list[int]:
    return [request["prompt"] for request in scenario["requests"]]


def test_only_the_request_that_matters_remains() -> None:
    big = generate(20, "control")
    wanted = max(prompts(big))
    smallest = shrink(big, lambda candidate: max(prompts(candidate)) >= wanted)
    assert prompts(smallest) == [wanted]
    assert set(smallest["requests"][0]) == {"id", "t", "prompt", "max_tokens"}
    assert smallest["requests"][0]["t"] == 0
    assert not smallest.get("events")


def test_a_smaller_scenario_is_still_one() -> None:
    """Aborts and continuations of removed requests go with them."""

    def shows(candidate: dict[str, Any]) -> bool:
        Scenario.from_json(candidate)
        ids = {request["id"] for request in candidate["requests"]}
        assert all(event["id"] in ids for event in candidate.get("events", ()) if event["op"] == "abort")
        return len(ids) >= 2

    for seed in range(20):
        scenario = generate(seed, "control")
        if len(scenario["requests"]) > 1:
            assert len(shrink(scenario, shows)["requests"]) == 2


def test_the_original_is_left_alone() -> None:
    scenario = generate(3)
    shrink(scenario, lambda candidate: True, max_tests=50)
    assert scenario == generate(3)


def test_nothing_is_taken_away_when_nothing_shows() -> None:
    scenario = generate(5)
    assert shrink(scenario, lambda candidate: False) == scenario


def test_the_number_of_tests_is_limited() -> None:
    asked: list[int] = []
    shrink(generate(6), lambda candidate: bool(asked.append(1)), max_tests=7)
    assert len(asked) == 7
