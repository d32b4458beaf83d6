"""Laws of connectors on random programs: nothing is held when all is over, all that is ordered is carried."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import serq
from serq.runtime.request_records import FINISH_REASONS
from serq.runtime.serving.engine_connector import EngineConnector
from serq.runtime.serving.kv_worker import KVWorker
from serq.runtime.serving.transfer_link import TransferLink, TransferSize
from serq.runtime.simulation import Simulation

SESSIONS = 40


def engine(random: Random, role: str, more: str = "") -> str:
    return f"""
        num_gpu_blocks {random.choice([25, 40, 80])}; max_model_len 320; cost 3 + tokens / 4 + ~exp(1);
        max_num_seqs {random.choice([2, 4, 16])}; max_num_batched_tokens {random.choice([32, 128])};
        enable_prefix_caching {random.choice(["true", "false"])}; kv_connector link; kv_role {role}; {more}"""


def random_program(seed: int) -> str:
    random = Random(seed)
    recomputes = random.random() < 0.6
    decoder = random.choice(["", "kv_load_failure_policy recompute;"])
    role = "kv_consumer" if recomputes else random.choice(["kv_consumer", "kv_both"])
    if recomputes:
        decoder += "scheduler recompute { fixed true; }"
    else:
        decoder += random.choice(["", "waiting priority;"])
    pipelined = role == "kv_consumer" and random.random() < 0.5  # see test_a_pipelined_engine_that_does_both
    decoder += f"async_scheduling {'true' if pipelined else 'false'};"
    wire = random.choice(["ps(1)", "fifo(2)", "delay"])
    return f"""
        stage wire : {wire}; stage clients : delay;
        connector link : transfer {{
            over wire; work {random.choice(["tokens / 8", "blocks", "0"])}; latency {random.choice([0, 2])};
            fail ~bernoulli({random.choice([0, 0.3])}); late {random.choice(["0", "~exp(20)"])};
            offload_blocks {random.choice([0, 10, 1000])}; release_after {random.choice([30, 5000])};
        }}
        stage one : vllm {{ {engine(random, random.choice(["kv_producer", "kv_both"]))} }}
        stage two : vllm {{ {engine(random, role, decoder)} }}
        stage spare : vllm {{ num_gpu_blocks 200; max_model_len 320; cost 5; }}
        workload {{
            arrive poisson({random.choice([0.02, 0.2])});
            init {{ set prompt = 20 + floor(~exp(60)); set prompt = min(prompt, 200);
                    set out = 1 + floor(min(80, ~exp(25))); set patience = 20 + ~exp(200); }}
        }}
        session {{
            request p on one (prompt, 1) prefix (1, 33) abort after (400);
            branch (aborted(p)) {{ end; }}
            set urgency = floor(~uniform(0, 3));
            request d on two (prompt, out) from p via link priority (urgency) abort after (patience);
            observe fetched = fetched_tokens(d);
            branch (recomputed(d)) {{ request r on spare (1, out) follows d; observe again = generated(r); }}
            branch (aborted(d)) {{ run clients (~exp(30)); request d on two (prompt, out) from p via link; }}
            observe outputs = generated(d);
        }}
        run {{ arrivals {SESSIONS}; horizon 1e6; }}"""


class Counted:
    """Counts what connectors were told to carry, and what arrived."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun = self.ended = 0
        self.tokens = 0.0
        carry, end = TransferLink._carry, KVWorker._end

        def carried(link: TransferLink, size: TransferSize, delay: float, done: Callable[[], None]) -> None:
            self.begun += 1
            self.tokens += size.tokens
            assert size.tokens > 0 and size.blocks > 0
            carry(link, size, delay, done)

        def ended(worker: KVWorker, transfer: Any) -> None:
            self.ended += 1
            end(worker, transfer)

        patch.setattr(TransferLink, "_carry", carried)
        patch.setattr(KVWorker, "_end", ended)


def run_to_the_end(text: str, seed: int) -> Simulation:
    """Run until every session has ended, and then until nothing happens any more."""
    program = serq.compile(source=text).ir
    simulation = Simulation(program, seed=seed, horizon=1e6, warmup=0.0, arrivals=SESSIONS, trace=None)
    simulation.run()
    while simulation.world.advance(1e7):
        pass
    return simulation


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_left_behind(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    simulation = run_to_the_end(random_program(seed), seed)
    for member in simulation.deployment.serving.engines:
        scheduler = member.scheduler
        assert scheduler.kv_cache_manager.block_pool.num_free_blocks == scheduler.config.num_gpu_blocks - 1
        assert not scheduler.requests and not member.number and not member.is_stalled
        if isinstance(scheduler.connector, EngineConnector):
            offload = scheduler.connector.offload
            link = member._worker
            assert link is not None and link.num_under_way == 0 and not link.has_ended and not link._leases
            assert offload.num_free_blocks == link.link.offload_blocks
            assert not scheduler.connector.ordered
    records = simulation.records()
    fetched = float(sum(records.requests.fetched_tokens))
    assert counted.begun == counted.ended
    assert counted.tokens >= fetched
    assert records.ended == SESSIONS
    assert FINISH_REASONS.index("") not in records.requests.finish_reason


def test_the_programs_are_about_something() -> None:
    """Together they fetch, fail, give back, offload and are given up."""
    reasons, preempted, fetched = set(), 0, 0
    for seed in range(12):
        table = run_to_the_end(random_program(seed), seed).records().requests
        reasons |= set(table.finish_reason)
        preempted += sum(table.preemptions)
        fetched += sum(1 for tokens in table.fetched_tokens if tokens)
    assert {FINISH_REASONS.index(reason) for reason in ("length", "abort", "error", "recomputed")} <= reasons
    assert preempted > 5 and fetched > 100
