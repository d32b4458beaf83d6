"""serq, a `step` stage: the program that pyserq 0.1.0 runs, its sessions arriving one by one."""

from __future__ import annotations

from time import perf_counter, process_time

from benchmarks.jobs import AFFINE, Job, Outcome
from benchmarks.peers.base import Peer
from benchmarks.peers.step_program import step_program


def _refuses(job: Job) -> str | None:
    return "prefixes shared between sessions are for the `vllm` stage" if job.shares_prefixes else None


PEER = Peer("serq step", __name__, "import serq.runtime.simulation", AFFINE, _refuses, ours=True)


def run(job: Job) -> Outcome:
    """Compile, read the trace, then run."""
    import serq
    from serq.runtime.simulation import simulate

    source = step_program(job, 'arrive trace (1); trace "timed.csv" ordered;', "")
    compiled = serq.compile(source=source, trace=job.timed)
    trace = compiled.read_trace()
    simulate(compiled.ir, trace=trace, horizon=1e-9)  # imports what such a run needs
    cpu, wall = process_time(), perf_counter()
    records = simulate(compiled.ir, trace=trace)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    report = serq.Report(records)
    return Outcome(
        run_cpu=cpu,
        run_wall=wall,
        requests=records.ended,
        steps=sum(stage.iterations for stage in records.stages),
        mean_ttft=report.observations["ttft"].mean,
        mean_e2e=report.observations["e2e"].mean,
        preemptions=sum(pool.preemptions for pool in records.pools),
    )
