"""Requests that can never be served end the run, named, with everything recorded by then."""

from __future__ import annotations

import pytest

from serq.errors import RunError
from serq.ir import nodes
from serq.ir.serving import Waiting
from serq.results import Report
from serq.runtime.serving.starvation import Wait, starved_requests
from tests.runtime.serving.build import branch, observe, pause, request, run, samples, vllm


def stopped(*arguments: object, **options: object) -> RunError:
    with pytest.raises(RunError) as caught:
        run(*arguments, **options)
    error = caught.value
    assert error.exit_code == 1
    assert error.records is not None
    assert "stopped: " in repr(Report(error.records))
    return error


def test_a_prompt_that_no_empty_engine_holds_ends_the_run_when_it_is_sent() -> None:
    """Nine usable blocks hold 144 tokens. Session 0's prompt of 144 fits, session 1's of 145 never will."""
    session = [branch("serial == 1", pause(4)), request("144 + serial", 1), observe("at", "now")]
    error = stopped(vllm(num_gpu_blocks=10), session, arrive=nodes.Batch(2))
    assert (error.code, error.time, error.session) == ("request-never-fits", 4, 1)
    assert "145 tokens" in error.message


def test_what_fits_exactly_is_served() -> None:
    records = run(vllm(num_gpu_blocks=10), [request(144, 1), observe("at", "now")])
    assert samples(records) == {"at": [10]}


def test_a_request_that_outgrows_the_engine_stalls() -> None:
    """Its 145th token needs a tenth block: it gives way to itself, and is too long to be admitted again."""
    error = stopped(vllm(num_gpu_blocks=10), [pause(5), request(140, 20)])
    assert error.code == "stall"
    assert error.session == 0
    assert error.records is not None
    assert error.records.requests.preemptions[0] == 1


def test_one_that_may_start_in_chunks_goes_round_for_ever() -> None:
    """Without the full-sequence test it is admitted again and again, and never gets past its 145th token."""
    chunks = {"scheduler_reserve_full_isl": False, "max_num_batched_tokens": 32, "max_num_seqs": 9}
    engine = vllm(num_gpu_blocks=10, enable_prefix_caching=False, **chunks)
    error = stopped(engine, [request(140, 20)])
    assert error.code == "livelock"
    assert "token 145" in error.message
    assert error.records is not None
    assert error.records.requests.preemptions[0] == 100


def test_while_others_arrive_a_stalled_engine_is_a_warning() -> None:
    engine = vllm(num_gpu_blocks=10)
    records = run(engine, [branch("serial == 0", request(140, 20))], arrive=nodes.Poisson(0.01), horizon=5e3)
    assert [warning.code for warning in records.warnings] == ["engine-stalled"]


def test_requests_that_others_overtake_for_long_are_named() -> None:
    """One slot, served in 10, wanted every 9.9: request 120 is the least urgent and waits till the end."""
    engine = vllm(max_num_seqs=1, waiting=Waiting("priority"))
    session = [pause("9.9 * serial"), request(5, 1, priority="100 * (serial == 120)")]
    records = run(engine, session, arrive=nodes.Batch(400))
    assert [warning.code for warning in records.warnings] == ["starvation"]
    assert "request 120 of session 120 " in records.warnings[0].message


def test_nobody_is_overtaken_by_who_was_taken_in_before_him() -> None:
    """Requests of one instant, served in their order: the last of them waits long, and nobody passes it."""
    waits = [Wait(0, 0, 5.0, 5.0, 9.0), Wait(1, 1, 5.0, 30.0, 40.0), Wait(2, 2, 31.0, 31.0, 50.0)]
    assert list(starved_requests(reversed(waits), 1.0, 99.0)) == []
    passed = [Wait(0, 0, 5.0, 30.0, 40.0), Wait(1, 1, 5.0, 5.0, 9.0)]
    assert list(starved_requests(reversed(passed), 1.0, 99.0)) == passed[:1]
