"""Who is admitted next: every order of waiting that a program can ask for, one slot at a time."""

from __future__ import annotations

from typing import Any

import pytest

from serq.errors import RunError
from serq.ir import nodes
from serq.ir.serving import Waiting, WaitingOption
from tests.runtime.serving.build import E, assign, branch, observe, pause, request, run, samples, vllm

HEAD = branch("serial == 0", request(5, 3))
"""Session 0 keeps the only slot from 0 to 30, while the others arrive one after another from 1 on."""


def order(waiting: Waiting, *, prompt: str = "5", sessions: int = 5, **clauses: Any) -> list[float]:
    """The sessions after the first in the order in which they are served, 10 each."""
    later = branch("serial > 0", pause("serial"), request(prompt, 1, **clauses), observe("served", "serial"))
    engine = vllm(max_num_seqs=1, waiting=waiting)
    return samples(run(engine, [HEAD, later], arrive=nodes.Batch(sessions)))["served"]


def keys(*texts: str) -> Waiting:
    return Waiting("by", tuple(map(E, texts)))


def test_first_come_first_served() -> None:
    assert order(Waiting()) == [1, 2, 3, 4]


def test_priority_and_then_arrival() -> None:
    assert order(Waiting("priority"), priority="(serial == 3) * -1 + (serial == 1)") == [3, 2, 4, 1]


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (keys("prompt_tokens"), [4, 3, 2, 1]),
        (keys("-prompt_tokens"), [1, 2, 3, 4]),
        (keys("-serial"), [4, 3, 2, 1]),
        (keys("0"), [1, 2, 3, 4]),
        (keys("serial == 1", "-waited"), [2, 3, 4, 1]),
        (keys("priority", "prompt_tokens"), [3, 1, 4, 2]),
    ],
)
def test_keys_order_ascending_and_ties_go_by_arrival(waiting: Waiting, expected: list[float]) -> None:
    """Prompts of 25, 20, 15, 10 tokens; odd sessions are the more urgent ones."""
    assert order(waiting, prompt="30 - 5 * serial", priority="(serial == 2) + (serial == 4)") == expected


def test_keys_are_read_at_each_selection() -> None:
    """By time since 34.5: at 30 everybody's key is 0, from 40 on the one who has waited least comes first."""
    assert order(keys("(now > 35) * waited")) == [1, 4, 3, 2]


def test_short_requests_first_and_immediate_ones_before_them() -> None:
    """Prompts of 31, 2, 31, 2 tokens, 30 being long; session 3 says that it is immediate."""
    waiting = Waiting("short_request_first", options=(WaitingOption("threshold", 30),))
    prompt = "2 + 29 * ((serial == 1) + (serial == 3))"
    assert order(waiting, prompt=prompt) == [2, 4, 1, 3]
    assert order(waiting, prompt=prompt, immediate="serial == 3") == [3, 2, 4, 1]


def test_what_goes_beyond_upstream_is_said() -> None:
    plain, fixed = (WaitingOption("max_jobs", 3),), (WaitingOption("fixed", 1),)
    assert warnings(Waiting("batch_job_aware", options=plain), request(5, 1)) == []
    assert warnings(Waiting("batch_job_aware", options=fixed), request(5, 1)) == ["beyond-upstream"]
    assert warnings(Waiting(), request(5, 1, immediate=1)) == ["beyond-upstream"]


def warnings(waiting: Waiting, statement: nodes.Request) -> list[str]:
    return [warning.code for warning in run(vllm(waiting=waiting), [statement]).warnings]


def test_more_jobs_than_allowed_end_the_run() -> None:
    with pytest.raises(RunError, match="max_jobs = 1"):
        order(Waiting("batch_job_aware", options=(WaitingOption("max_jobs", 1),)), job="serial")


@pytest.mark.parametrize("name", ["threshold", "nonsense"])
def test_unfit_options_of_a_queue_are_named(name: str) -> None:
    with pytest.raises(RunError, match="stage `engine`"):
        order(Waiting("short_request_first", options=(WaitingOption(name, -1),)))


def test_an_aged_long_request_comes_before_short_ones() -> None:
    """Session 1 is long, is taken in at 10 and has waited 20,000 ms at 30."""
    prompt = "2 + 29 * (serial == 1)"
    for limit, expected in ((20_000.0, [1, 2, 3, 4]), (30_001.0, [2, 3, 1, 4])):
        options = (WaitingOption("threshold", 30), WaitingOption("long_max_wait_ms", limit))
        assert order(Waiting("short_request_first", options=options), prompt=prompt) == expected


def test_jobs_take_their_first_requests_before_any_choice() -> None:
    """All four are among the first three of their job, so they go as they came (V-025)."""
    assert order(Waiting("batch_job_aware"), job="1 + (serial > 2)") == [1, 2, 3, 4]


def test_a_preempted_request_stays_in_front() -> None:
    """Two requests outgrow six blocks; the later one gives way, and comes before a newcomer."""
    engine = vllm(
        num_gpu_blocks=7, max_num_seqs=2, waiting=keys("prompt_tokens"), enable_prefix_caching=False
    )
    session = [
        assign("late", "serial == 2"),
        branch("serial < 2", request(40, 20), observe("served", "serial"), observe("at", "now")),
        branch("serial == 2", pause(5), request(4, 1), observe("served", "serial")),
    ]
    records = run(engine, session, arrive=nodes.Batch(3))
    assert list(records.requests.preemptions) == [0, 1, 0]
    assert samples(records)["served"] == [0, 2, 1]
    scheduled, finish = records.requests.scheduled, records.requests.finish
    assert scheduled[2] >= finish[0]
