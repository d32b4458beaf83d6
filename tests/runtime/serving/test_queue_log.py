"""Who waited in which lane, and who was preempted for whom, against traces worked out by hand."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import pytest

from serq.ir import nodes
from serq.ir.serving import Vllm, Waiting, WaitingOption
from serq.runtime.records import Records
from serq.runtime.request_records import PREEMPTION_COLUMNS, QUEUE_COLUMNS
from serq.runtime.simulation import simulate
from tests.runtime.serving.build import E, branch, pause, program, request, run, vllm


def rows(table: Any, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The rows, None for NaN."""
    found = zip(*(getattr(table, name) for name in columns), strict=True)
    return [tuple(None if isinstance(x, float) and isnan(x) else x for x in row) for row in found]


def stays(records: Records) -> list[tuple[Any, ...]]:
    return rows(records.engines[0].queue, QUEUE_COLUMNS)


def test_a_request_that_need_not_wait_has_a_stay_of_no_time() -> None:
    assert stays(run(vllm(), [request(5, 2)])) == [(0, "waiting", 0, 0, "admitted", 0, 0)]


def test_lanes_of_short_requests_first() -> None:
    """Session 0 has the only slot till 30. The others come at 1, 2, 3 and are taken in at 10."""
    waiting = Waiting("short_request_first", options=(WaitingOption("threshold", 30),))
    prompt = "31 - 29 * (serial == 2)"
    later = branch("serial > 0", pause("serial"), request(prompt, 1, immediate="serial == 3"))
    head = branch("serial == 0", request(5, 3))
    found = stays(run(vllm(max_num_seqs=1, waiting=waiting), [head, later], arrive=nodes.Batch(4)))
    assert found == [
        (0, "short", 0, 0, "admitted", 0, 0),
        (3, "immediate", 10, 30, "admitted", 3, 0),
        (2, "short", 10, 40, "admitted", 4, 0),
        (1, "long", 10, 50, "admitted", 5, 0),
    ]


def test_lanes_of_a_queue_by_keys_and_of_jobs() -> None:
    later = branch("serial > 0", pause("serial"), request(5, 1, job="serial > 4"))
    head = branch("serial == 0", request(5, 3, job="0"))
    for waiting, lanes in (
        (Waiting("by", (E("prompt_tokens"),)), {"by keys"}),
        (Waiting("batch_job_aware"), {"cold start", "job 0"}),
    ):
        found = stays(run(vllm(max_num_seqs=1, waiting=waiting), [head, later], arrive=nodes.Batch(6)))
        assert {row[1] for row in found} == lanes


def test_whoever_waits_at_the_end_or_gives_up_is_there() -> None:
    """One slot, taken for ever; request 1 gives up at 25, between two steps; request 2 waits at the end."""
    first = branch("serial == 0", request(5, 900))
    second = branch("serial == 1", request(5, 1, abort_after="25"))
    third = branch("serial == 2", request(5, 1))
    records = run(vllm(max_num_seqs=1), [first, second, third], arrive=nodes.Batch(3), horizon=95.0)
    assert stays(records) == [
        (0, "waiting", 0, 0, "admitted", 0, 0),
        (1, "waiting", 0, 30, "ended", -1, 0),
        (2, "waiting", 0, None, "", -1, 0),
    ]


def test_a_preemption_names_victim_cause_loss_and_recovery() -> None:
    """Nine usable blocks: prompts of 4 and 5 blocks fill them in step 0, and at 10 request 0 needs a tenth.

    It goes on alone to its 20th token at 200. Then request 1 is admitted again and says its second token.
    """
    session = [branch("serial == 0", request(64, 20)), branch("serial == 1", request(80, 2))]
    records = run(vllm(num_gpu_blocks=10), session, arrive=nodes.Batch(2))
    (engine,) = records.engines
    assert rows(engine.victims, PREEMPTION_COLUMNS) == [(10, 1, 1, 80, 0, 200, 210)]
    assert stays(records)[-1] == (1, "waiting", 10, 200, "admitted", 20, 1)
    assert engine.preemptions == 1 and list(engine.table.preempted).index(1) == 1


def test_a_request_may_give_way_to_itself_and_never_come_back() -> None:
    """Prompts of 4 blocks each and 9 blocks: at 10 request 0 takes the ninth, and request 1 finds none."""
    records = run(vllm(num_gpu_blocks=10), [request(64, 20)], arrive=nodes.Batch(2), horizon=100.0)
    (engine,) = records.engines
    assert rows(engine.victims, PREEMPTION_COLUMNS) == [(10, 1, 1, 64, 1, None, None)]


def random_engine(seed: int) -> Vllm:
    """Little memory, so that requests wait and give way, in a lane that the seed chooses."""
    waiting = (
        Waiting(),
        Waiting("priority"),
        Waiting("short_request_first", options=(WaitingOption("threshold", 30),)),
        Waiting("by", (E("prompt_tokens"),)),
    )[seed % 4]
    return vllm(
        "5 + tokens", num_gpu_blocks=20, max_model_len=200, max_num_seqs=4, waiting=waiting,
        async_scheduling=seed % 3 == 0, enable_prefix_caching=seed % 5 == 0,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_engines_that_plan_write_the_same_as_those_that_walk(seed: int) -> None:
    """Law L1: every column of stays and preemptions is the same, bit for bit."""
    output = "20 + 30 * bernoulli(0.5) + 15 * bernoulli(0.5)"
    sent = request("20 + 40 * bernoulli(0.5)", output, priority="serial")
    definition = program(
        random_engine(seed), [sent], arrive=nodes.Poisson(0.004), horizon=40_000.0, seed=seed
    )
    planned, walked = (simulate(definition, trace=None, engine=mode) for mode in ("fast", "reference"))
    assert len(planned.engines[0].victims) > 0
    for one, other in zip(planned.engines, walked.engines, strict=True):
        assert repr(one.queue) == repr(other.queue)
        assert repr(one.victims) == repr(other.victims)


def test_stays_and_requests_agree() -> None:
    """The first stay of a request begins when it was taken in and ends when it was first admitted."""
    records = run(random_engine(1), [request("20 + 40 * bernoulli(0.5)", 40)], arrive=nodes.Poisson(0.004))
    (engine,) = records.engines
    table = records.requests
    first = {row[0]: row for row in reversed(stays(records))}
    for place in range(len(table)):
        scheduled = table.scheduled[place]
        left = nan if first[place][3] is None else first[place][3]
        assert first[place][2] == table.queued[place] and (left == scheduled or isnan(scheduled))
        if first[place][5] >= 0 and first[place][5] < len(engine.table):
            assert engine.table.formed[first[place][5]] == scheduled
