"""Prompts that take many steps: values by hand, and the walk's with arrivals and ends in between."""

from __future__ import annotations

from random import Random

import pytest

from serq import api
from serq.runtime.simulation import simulate
from tests.fuzz.fast_path import columns


def program(options: str, cost: str, arrive: str, session: str) -> api.Program:
    """A synchronous engine, and sessions of one request."""
    return api.compile(
        source=f"""
        stage npu : vllm {{ max_model_len 5000; async_scheduling false; {options} cost {cost}; }}
        workload {{ arrive {arrive}; }} session {{ {session} }} run {{ horizon 5000; }}
        """
    )


@pytest.mark.parametrize("caching", ["true", "false"])
def test_a_prompt_gets_what_a_decode_leaves(caching: str) -> None:
    """Budget 20. Prompts of 10 and 60 tokens: the second gets 10, then 19 beside a decode, then its last 12.

    The first has its 9 outputs with step 8, the second its 4 with step 6. Blocks of 16: the second gets one
    with each of its shares, the first its second with its 17th token, in step 7.
    """
    run = program(
        f"num_gpu_blocks 100; max_num_batched_tokens 20; max_num_seqs 4; enable_prefix_caching {caching};",
        "10 + prefilled",
        "batch(2)",
        "request r on npu (10 + 50 * serial, 9 - 5 * serial);",
    )
    records = simulate(run.ir)
    assert records.clock_reason is None
    table = records.engines[0].table
    assert list(table.tokens) == [20, 20, 20, 13, 2, 2, 2, 1, 1]
    assert list(table.scheduled) == [2, 2, 2, 2, 2, 2, 2, 1, 1]
    assert list(table.prefill_tokens) == [20, 19, 19, 12, 0, 0, 0, 0, 0]
    assert list(table.end) == [30.0, 59.0, 88.0, 110.0, 120.0, 130.0, 140.0, 150.0, 160.0]
    assert list(table.formed) == [0.0, 30.0, 59.0, 88.0, 110.0, 120.0, 130.0, 140.0, 150.0]
    assert list(table.free_blocks) == [97, 96, 95, 94, 94, 94, 94, 97, 97]
    assert list(records.requests.first_token) == [30.0, 110.0]


@pytest.mark.parametrize("seed", range(60))
def test_long_prompts_are_computed_as_the_walk_does(seed: int) -> None:
    random = Random(seed)
    run = program(
        f"num_gpu_blocks {random.choice([60, 90, 400])}; max_num_seqs {random.choice([1, 3, 8])};"
        f"max_num_batched_tokens {random.choice([8, 9, 33, 64])};"
        f"enable_prefix_caching {random.choice(['true', 'false'])};"
        + random.choice(["", "", "long_prefill_token_threshold 30;", "scheduler_reserve_full_isl false;"]),
        random.choice(["1", "0.3 + 0.01 * prefilled + 0.0001 * context_prefill", "1 + 0.001 * now"]),
        random.choice(["poisson(0.02)", "poisson(0.1)", "renewal(7)"]),
        f"set n = floor(~uniform(1, {random.choice([40, 400, 800])})); set o = floor(~uniform(1, 60));"
        "request r on npu (n, o); observe e2e = e2e(r);",
    )
    ahead, walked = (simulate(run.ir, engine=mode, horizon=1000) for mode in ("auto", "reference"))
    assert columns(ahead) == columns(walked)
