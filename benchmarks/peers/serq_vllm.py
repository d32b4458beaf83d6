"""serq, a `vllm` stage: the synchronous engine, as the peers model it."""

from __future__ import annotations

from time import perf_counter, process_time

from benchmarks.jobs import AFFINE, Job, Outcome
from benchmarks.peers.base import Peer
from benchmarks.peers.step_program import step_cost

PEER = Peer("serq vllm", __name__, "import serq.runtime.simulation", AFFINE, ours=True)


def program(job: Job) -> str:
    """The program of ``job``."""
    engine = job.engine
    family = f"[{engine.replicas}]" if engine.replicas > 1 else ""
    member = f"[serial - {engine.replicas} * floor(serial / {engine.replicas})]" if family else ""
    return f"""
stage npu{family} : vllm {{
  max_num_seqs {engine.max_num_seqs};
  max_num_batched_tokens {engine.max_num_batched_tokens};
  num_gpu_blocks {engine.num_gpu_blocks};
  block_size {engine.block_size};
  enable_prefix_caching {str(engine.prefix_caching).lower()};
  max_model_len 262144;
  async_scheduling false;
  cost {step_cost(job.price)};
}}
workload {{ arrive trace (1); trace "timed.csv" ordered; hidden out; }}
session {{
  turn;
  request r on npu{member} (new, out) {"traced" if job.shares_prefixes else ""};
  observe ttft = ttft(r);
  observe e2e = e2e(r);
}}
run {{ horizon 1e9; }}
"""


def run(job: Job) -> Outcome:
    """Compile, read the trace, then run."""
    import serq
    from serq.runtime.simulation import simulate

    file = job.mooncake if job.shares_prefixes else job.timed
    compiled = serq.compile(source=program(job), trace=file)
    trace = compiled.read_trace()
    simulate(compiled.ir, trace=trace, horizon=1e-9)  # imports what such a run needs
    cpu, wall = process_time(), perf_counter()
    records = simulate(compiled.ir, trace=trace, engine="auto")
    cpu, wall = process_time() - cpu, perf_counter() - wall
    report = serq.Report(records)
    return Outcome(
        run_cpu=cpu,
        run_wall=wall,
        requests=records.ended,
        steps=sum(engine.steps for engine in records.engines),
        mean_ttft=report.observations["ttft"].mean,
        mean_e2e=report.observations["e2e"].mean,
        preemptions=sum(engine.preemptions for engine in records.engines),
    )
