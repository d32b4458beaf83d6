"""Vidur: its simulator and its Sarathi scheduler with a chunk of the token budget, metrics off.

Its predictor of execution times wants profiles of kernels; the price takes its place, so the look-ups of the
predictor, some twenty a step, are not paid: Vidur as it is used is slower.
"""

from __future__ import annotations

from math import fsum
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from benchmarks.jobs import AFFINE, Job, Outcome, Price
from benchmarks.peers.base import Peer


def _refuses(job: Job) -> str | None:
    if job.engine.prefix_caching:
        return "it models no prefix caching"
    if job.preempts:
        return "a request that it preempted and restarted fails its own assertions"
    return None


PEER = Peer("Vidur", __name__, "from vidur._native.entities import ExecutionTime", AFFINE, _refuses)


class PricedPredictor:
    """Takes the place of an execution time predictor; counts the batches, which are the steps."""

    def __init__(self, price: Price) -> None:
        from vidur._native.entities import ExecutionTime

        self._execution_time = ExecutionTime
        self._base = price.base * 1000
        self._per_token = price.per_token * 1000
        self.steps = 0

    def get_execution_time(self, batch: Any, pipeline_stage: int) -> Any:
        """The price in milliseconds, put where the time between pipeline stages goes: it is taken once."""
        self.steps += 1
        milliseconds = self._base + self._per_token * batch.total_num_q_tokens
        return self._execution_time(0, *[0.0] * 13, milliseconds)


def run(job: Job) -> Outcome:
    """One simulation of requests that are there already."""
    from vidur.entities import Request
    from vidur.execution_time_predictor import ExecutionTimePredictorRegistry
    from vidur.request_generator import RequestGeneratorRegistry
    from vidur.simulator import Simulator
    from vidur.types import ExecutionTimePredictorType, RequestGeneratorType

    requests = [Request(*row) for row in job.rows()]
    predictor = PricedPredictor(job.price)
    ExecutionTimePredictorRegistry.register(ExecutionTimePredictorType.DUMMY, lambda **configs: predictor)
    RequestGeneratorRegistry.unregister(RequestGeneratorType.TRACE_REPLAY)
    RequestGeneratorRegistry.register(RequestGeneratorType.TRACE_REPLAY, lambda config: _Given(requests))
    with TemporaryDirectory(prefix="serq-vidur-") as folder:
        simulator = Simulator(configuration(job, folder))
        cpu, wall = process_time(), perf_counter()
        simulator.run()
        cpu, wall = process_time() - cpu, perf_counter() - wall
    return Outcome(
        run_cpu=cpu,
        run_wall=wall,
        requests=sum(request.completed for request in requests),
        steps=predictor.steps,
        mean_ttft=fsum(request.prefill_completed_at - request.arrived_at for request in requests) / job.count,
        mean_e2e=fsum(request.e2e_time for request in requests) / job.count,
        preemptions=sum(request.num_restarts for request in requests),
    )


class _Given:
    """A request generator that hands out requests that exist."""

    def __init__(self, requests: list[Any]) -> None:
        self._requests = requests

    def generate(self) -> list[Any]:
        return self._requests


def configuration(job: Job, folder: str) -> Any:
    """Vidur's configuration of ``job``; it writes into ``folder``. What its model would cost is not used."""
    from vidur.config import (
        BaseExecutionTimePredictorConfig,
        CacheConfig,
        ClusterConfig,
        MetricsConfig,
        ReplicaConfig,
        RoundRobinGlobalSchedulerConfig,
        SarathiSchedulerConfig,
        SimulationConfig,
        TraceRequestGeneratorConfig,
    )
    from vidur.types import ExecutionTimePredictorType

    class PricedConfig(BaseExecutionTimePredictorConfig):  # type: ignore[misc]
        @staticmethod
        def get_type() -> Any:
            return ExecutionTimePredictorType.DUMMY

    engine = job.engine
    return SimulationConfig(
        cluster_config=ClusterConfig(
            num_replicas=engine.replicas,
            replica_config=ReplicaConfig(num_pipeline_stages=1, tensor_parallel_size=1),
            cache_config=CacheConfig(
                block_size=engine.block_size,
                num_blocks=engine.num_gpu_blocks - 1,
                watermark_blocks_fraction=0.0,
            ),
            global_scheduler_config=RoundRobinGlobalSchedulerConfig(),
            replica_scheduler_config=SarathiSchedulerConfig(
                batch_size_cap=engine.max_num_seqs, chunk_size=engine.max_num_batched_tokens
            ),
        ),
        request_generator_config=TraceRequestGeneratorConfig(),
        execution_time_predictor_config=PricedConfig(),
        metrics_config=MetricsConfig(
            write_metrics=False,
            enable_chrome_trace=False,
            store_plots=False,
            output_dir=folder,
        ),
    )
