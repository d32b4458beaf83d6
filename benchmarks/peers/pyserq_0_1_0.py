"""pyserq 0.1.0, the reference of the base language: the same program as ours, all sessions from time 0.

It has no arrivals at given times, so every session waits in a delay stage until its own. Reading the trace is
part of its run.
"""

from __future__ import annotations

from time import perf_counter, process_time

from benchmarks.jobs import AFFINE, Job, Outcome
from benchmarks.peers.base import Peer
from benchmarks.peers.step_program import step_program


def _refuses(job: Job) -> str | None:
    return "no prefixes shared between sessions" if job.shares_prefixes else None


PEER = Peer(
    "pyserq 0.1.0",
    __name__,
    "from importlib.metadata import version; assert version('pyserq') == '0.1.0'",
    AFFINE,
    _refuses,
)


def run(job: Job) -> Outcome:
    """Compile, then run."""
    import pyserq

    arrivals = f'arrive batch({job.count}); trace "requests.csv" ordered;'
    program = pyserq.compile(source=step_program(job, arrivals, "run until (think);"), trace=job.requests)
    cpu, wall = process_time(), perf_counter()
    report = pyserq.run(program)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    return Outcome(
        run_cpu=cpu,
        run_wall=wall,
        requests=report.ended,
        steps=sum(stage.iterations for stage in report.stages),
        mean_ttft=report.observe("ttft").mean,
        mean_e2e=report.observe("e2e").mean,
        preemptions=sum(pool.preemptions for pool in report.pools),
    )
