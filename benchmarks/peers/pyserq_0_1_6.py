"""pyserq 0.1.6: the same engine in its newer form, a scheduler and a worker, with a workload of its own."""

from __future__ import annotations

from math import fsum
from time import perf_counter, process_time

from benchmarks.jobs import AFFINE, Job, Outcome
from benchmarks.peers.base import Peer


def _refuses(job: Job) -> str | None:
    if job.shares_prefixes:
        return "no prefixes shared between sessions"
    if job.engine.replicas > 1:
        return "this adapter writes no queue family"
    return None


PEER = Peer(
    "pyserq 0.1.6",
    __name__,
    "from importlib.metadata import version; assert version('pyserq') == '0.1.6'",
    AFFINE,
    _refuses,
)


def deployment(job: Job) -> str:
    """The engine of ``job``, and a server that sends it what arrives."""
    engine, price = job.engine, job.price
    keep = "cache (request.input + request.output)" if engine.prefix_caching else ""
    hit = "request.hit + " if engine.prefix_caching else ""
    return f"""
fn main() {{
  device gpu {{ kv cap {(engine.num_gpu_blocks - 1) * engine.block_size}; }}
  pool kv on gpu {{ block {engine.block_size}; preempt lifo; }}
  engine E on gpu {{
    tokens cap {engine.max_num_batched_tokens};
    seqs cap {engine.max_num_seqs};
    scheduler {{
      advance running;
      admit waiting while (running.preempted == 0)
        taking seqs (1), kv (min(request.known, {hit}budget_left(E))) reserve (request.known) {keep};
    }}
    worker {{ forward ({price.base!r} + {price.per_token!r} * batch.tokens); }}
  }}
  pool seqs on E {{ }}
  stage until : delay;
  server (new, hidden out, think) {{
    run until (cost(until, think));
    set sent = now;
    E (new, out);
    observe e2e = now - sent;
  }}
}}
"""


def run(job: Job) -> Outcome:
    """Compile, then run. Its clients count the time to the first token from time 0, so that is taken off."""
    import pyserq

    workload = f'workload {{ arrive batch({job.count}); trace "r.csv" ordered; send (new, out, think); }}'
    program = pyserq.compile(
        source=deployment(job), workload_source=workload, trace=job.requests, horizon=1e9
    )
    cpu, wall = process_time(), perf_counter()
    report = pyserq.run(program)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    arrivals = fsum(row[0] for row in job.rows()) / job.count
    return Outcome(
        run_cpu=cpu,
        run_wall=wall,
        requests=report.ended,
        steps=sum(stage.iterations for stage in report.stages),
        mean_ttft=report.client["ttft"].mean - arrivals,
        mean_e2e=report.observe("e2e").mean,
        preemptions=sum(pool.preemptions for pool in report.pools),
    )
