"""Engines that thrash are named with their worst victim; the numbers are worked out by hand."""

from __future__ import annotations

from serq.ir import nodes
from serq.results.explanation.thrash import thrashing
from tests.runtime.serving.build import branch, request, run, vllm


def test_a_large_share_of_lost_tokens() -> None:
    """The trace of `test_queue_log`: 80 are lost. Computed: 64 + 19 by request 0, 80 + 81 by request 1."""
    session = [branch("serial == 0", request(64, 20)), branch("serial == 1", request(80, 2))]
    engine = vllm(num_gpu_blocks=10, enable_prefix_caching=False)
    (sentence,) = thrashing(run(engine, session, arrive=nodes.Batch(2)))
    assert sentence == (
        "`engine` thrashes: 1 preemption lost 80 computed tokens, 32.8 % of all that it computed; "
        "request 1 gave way 1 time"
    )


def test_a_request_that_gives_way_again_and_again() -> None:
    engine = vllm(num_gpu_blocks=30, max_num_seqs=24, max_model_len=390)
    records = run(engine, [request(16, 370)], arrive=nodes.Batch(24))
    most = max(records.requests.preemptions)
    assert most >= 5
    assert f"gave way {most} times" in next(thrashing(records))


def test_whoever_never_gives_way_is_not_named() -> None:
    assert not list(thrashing(run(vllm(), [request(16, 10)])))
