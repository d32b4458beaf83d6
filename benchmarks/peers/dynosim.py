"""DynoSim: the offline replay of ai-dynamo-runtime, with its fixed timing of prefills and decodes."""

from __future__ import annotations

from itertools import islice, pairwise
from time import perf_counter, process_time

from benchmarks.jobs import FIXED, Job, Outcome
from benchmarks.peers.base import OwnRules, Peer


def _own_rules(job: Job) -> OwnRules | None:
    if job.preempts:
        return OwnRules("its preemptions follow rules of their own", 1e-3)
    if job.shares_prefixes:
        return OwnRules("its prefix cache follows rules of its own", 1e-3)
    times = [row[0] for row in islice(job.rows(), 20)]
    gaps = {round(after - before, 6) for before, after in pairwise(times)}
    if len(gaps) == 1:
        return OwnRules("an even arrival at the end of a step falls to the other side of it", 1e-2)
    return None


PEER = Peer(
    "DynoSim",
    __name__,
    "from dynamo._core import run_mocker_trace_replay",
    FIXED,
    compares=("mean_ttft", "mean_e2e"),
    tolerance=1e-4,
    like="serq step",
    own_rules=_own_rules,
)
"""It counts time in float milliseconds, so an arrival at the end of a step may fall to its other side. It
does not tell how many steps it took.

The last token of a prompt, alone in a step, is a prefill to it and to a `step` program that says so; to
vLLM's attention, and so to a `vllm` stage, it is a decode.
"""


def run(job: Job) -> Outcome:
    """One replay. Reading the trace is part of it."""
    from dynamo._core import run_mocker_trace_replay

    engine, price = job.engine, job.price
    arguments = {
        "engine": {
            "backend": "vllm",
            "num_gpu_blocks": engine.num_gpu_blocks - 1,
            "block_size": engine.block_size,
            "max_num_seqs": engine.max_num_seqs,
            "max_num_batched_tokens": engine.max_num_batched_tokens,
            "enable_prefix_caching": engine.prefix_caching,
            "timing_model": {
                "type": "fixed",
                "prefill_ms": price.prefill * 1000,
                "decode_ms": price.decode * 1000,
            },
        }
    }
    cpu, wall = process_time(), perf_counter()
    result = run_mocker_trace_replay(
        [job.mooncake],
        extra_engine_args=arguments,
        num_workers=engine.replicas,
        trace_block_size=512,
        capture_planner_details=False,
    )
    summary = result.summary
    cpu, wall = process_time() - cpu, perf_counter() - wall
    return Outcome(
        run_cpu=cpu,
        run_wall=wall,
        requests=summary["completed_requests"],
        mean_ttft=summary["mean_ttft_ms"] / 1000,
        mean_e2e=summary["mean_e2e_latency_ms"] / 1000,
    )
