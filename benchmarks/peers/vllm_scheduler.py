"""The scheduler of vLLM 0.27.1 itself, on the processor: its clock is a number, and its sampler counts.

Real are the scheduler, its KV cache manager, the requests and the hashing of their blocks. Only the turns of
the synchronous engine are written here: take in what has arrived, schedule, wait for a step, hand in tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count, islice
from math import fsum
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

from benchmarks.jobs import AFFINE, Job, Outcome
from benchmarks.peers.base import Peer

PEER = Peer(
    "vLLM scheduler",
    __name__,
    "from importlib.metadata import version; import torch, vllm;"
    "assert version('vllm').partition('+')[0] == '0.27.1'",
    AFFINE,
)

_BEHIND_A_HASH = 512


class Arrival(NamedTuple):
    """A request: when it comes, in seconds, the hash ids of its prompt (512 tokens each) and both lengths."""

    time: float
    hash_ids: list[int]
    prompt: int
    output: int

    def tokens(self) -> list[int]:
        """The prompt; a token's number tells its hash id and its place behind it."""
        starts = (hash_id * _BEHIND_A_HASH for hash_id in self.hash_ids)
        tokens = [token for start in starts for token in range(start, start + _BEHIND_A_HASH)]
        return tokens[: self.prompt]


def run(job: Job) -> Outcome:
    """Import vLLM and read the requests; then run the replicas one after the other. They get them in turn."""
    with Path(job.mooncake).open(encoding="utf-8") as lines:
        hash_ids = (json.loads(line)["hash_ids"] for line in lines)
        arrivals = [Arrival(row[0], ids, *row[1:]) for row, ids in zip(job.rows(), hash_ids, strict=True)]
    replicas = [Replica(job) for _ in range(job.engine.replicas)]
    cpu, wall = process_time(), perf_counter()
    for first, replica in enumerate(replicas):
        replica.serve(islice(arrivals, first, None, len(replicas)))
    cpu, wall = process_time() - cpu, perf_counter() - wall
    return Outcome(
        run_cpu=cpu,
        run_wall=wall,
        requests=sum(len(replica.latencies) for replica in replicas),
        steps=sum(replica.steps for replica in replicas),
        mean_ttft=fsum(ttft for replica in replicas for ttft in replica.ttfts) / job.count,
        mean_e2e=fsum(latency for replica in replicas for latency in replica.latencies) / job.count,
        preemptions=sum(replica.preemptions for replica in replicas),
    )


class Replica:
    """One scheduler and its clock; TTFTs and end-to-end latencies in the order in which they are known."""

    def __init__(self, job: Job) -> None:
        self.ttfts: list[float] = []
        self.latencies: list[float] = []
        self.steps = 0
        self.preemptions = 0
        self._price = job.price
        built = scheduler_of(job)
        self._scheduler = built.scheduler
        self._block_hasher = built.block_hasher
        self._unused_token = count()
        self._unused_id = count()
        self._arrived: dict[str, float] = {}
        self._first_token_due: dict[str, float] = {}

    def serve(self, arrivals: Iterable[Arrival]) -> None:
        """From time 0 until every request has ended."""
        scheduler, price = self._scheduler, self._price
        requests = iter(arrivals)
        upcoming = next(requests, None)
        now = 0.0
        while True:
            if not scheduler.has_unfinished_requests():
                if upcoming is None:
                    return
                now = max(now, upcoming.time)
            while upcoming is not None and upcoming.time <= now:
                self._take_in(upcoming)
                upcoming = next(requests, None)
            step = scheduler.schedule()
            if not step.total_num_scheduled_tokens:
                raise RuntimeError(f"at {now} s nothing was scheduled, and requests wait")
            now += price.base + price.per_token * step.total_num_scheduled_tokens
            self.steps += 1
            self.preemptions += len(step.preempted_req_ids or ())
            self._hand_in(step, now)

    def _take_in(self, arrival: Arrival) -> None:
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        request_id = str(next(self._unused_id))
        self._arrived[request_id] = self._first_token_due[request_id] = arrival.time
        self._scheduler.add_request(
            Request(
                request_id=request_id,
                prompt_token_ids=arrival.tokens(),
                sampling_params=SamplingParams(max_tokens=arrival.output, ignore_eos=True),
                pooling_params=None,
                arrival_time=arrival.time,
                block_hasher=self._block_hasher,
            )
        )

    def _hand_in(self, step: Any, now: float) -> None:
        """A token, never the same twice, for everybody whose prompt is through; none in the middle of one."""
        from vllm.v1.outputs import ModelRunnerOutput

        requests = self._scheduler.requests
        ids = list(step.num_scheduled_tokens)
        sampled = [[] if requests[i].is_prefill_chunk else [next(self._unused_token)] for i in ids]
        output = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: row for row, request_id in enumerate(ids)},
            sampled_token_ids=sampled,
        )
        for client in self._scheduler.update_from_output(step, output).values():
            for result in client.outputs:
                if result.request_id in self._first_token_due:
                    self.ttfts.append(now - self._first_token_due.pop(result.request_id))
                if result.finish_reason is not None:
                    self.latencies.append(now - self._arrived.pop(result.request_id))


def scheduler_of(job: Job) -> Any:
    """The scheduler of ``job`` and the hasher of its blocks, as `serq oracle capture` builds them."""
    from serq.oracle.capture import Scenario, require_vllm
    from serq.oracle.capture.scenario import Cost, Engine, Group

    require_vllm()
    from serq.oracle.capture.settings import BuiltScheduler

    engine = Engine(
        max_num_batched_tokens=job.engine.max_num_batched_tokens,
        max_num_seqs=job.engine.max_num_seqs,
        max_model_len=262_144,
        enable_prefix_caching=job.engine.prefix_caching,
        num_gpu_blocks=job.engine.num_gpu_blocks,
        groups=(Group("full", job.engine.block_size),),
    )
    return BuiltScheduler(Scenario(engine, Cost(), ()))
