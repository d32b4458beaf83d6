"""Recompute, DyntraLB, profiling-chunk and balance schedulers (V-037 to V-064), and the choice of one."""

import pytest

from serq.oracle.ascend.connectors import AcceptingConnector, RefusingConnector, ScriptedConnector
from serq.runtime.ascend.balance import BalanceScheduler, gather_running
from serq.runtime.ascend.balance_plan import BalanceStep
from serq.runtime.ascend.chunk_predictor import ProfilingChunkConfig
from serq.runtime.ascend.cpu_offload import CPUOffloadConnector
from serq.runtime.ascend.dyntra import DyntraLBRecomputeScheduler, DyntraLBScheduler
from serq.runtime.ascend.dyntra_group import DyntraLBConfig, DyntraLBGroup
from serq.runtime.ascend.profiling_chunk import ProfilingChunkScheduler
from serq.runtime.ascend.recompute import RecomputeScheduler
from serq.runtime.ascend.scheduler_choice import (
    SchedulerKind,
    SchedulerOptionError,
    SchedulerOptions,
    choose_scheduler,
)
from serq.runtime.vllm.config import KVTransferConfig
from serq.runtime.vllm.request import RequestStatus
from serq.runtime.vllm.scheduler import VllmScheduler
from tests.runtime.ascend.ascend_requests import engine, names, request, shares, step

CONSUMER = KVTransferConfig(role="kv_consumer")


def full_pool(scheduler: VllmScheduler) -> None:
    """Four requests of two blocks each fill the eight blocks; the fourth step needs a ninth."""
    for name in "abcd":
        scheduler.add_request(request(name, 30, decode=20))
    for _ in range(3):
        step(scheduler)


@pytest.mark.parametrize("connector", [None, ScriptedConnector({}), RefusingConnector({})])
def test_what_nobody_keeps_is_given_back(connector: ScriptedConnector | None) -> None:
    scheduler = RecomputeScheduler(engine(kv_transfer=CONSUMER), connector)
    full_pool(scheduler)
    formed, outputs = step(scheduler)
    assert shares(formed) == {"a": 1, "b": 1}
    assert [(out.request.request_id, out.num_new_tokens) for out in outputs[:2]] == [("d", 0), ("c", 0)]
    assert outputs[0].finished is RequestStatus.FINISHED_RECOMPUTED
    assert set(scheduler.requests) == {"a", "b"}


def test_what_the_connector_keeps_waits_and_comes_back_with_one_token() -> None:
    scheduler = RecomputeScheduler(engine(kv_transfer=CONSUMER), AcceptingConnector({}))
    full_pool(scheduler)
    formed, _ = step(scheduler)
    assert formed.preempted_req_ids == ["d", "c"]
    assert [entry.num_computed_tokens for entry in scheduler.offloaded] == [32, 32]
    scheduler.finish_requests(["a", "b"], RequestStatus.FINISHED_ABORTED)
    step(scheduler, loaded=("c", "d"))
    assert shares(step(scheduler)[0]) == {"c": 1, "d": 1}


def test_nobody_is_admitted_in_a_step_that_gave_somebody_back() -> None:
    scheduler = RecomputeScheduler(engine(kv_transfer=CONSUMER), RefusingConnector({}))
    full_pool(scheduler)
    scheduler.add_request(request("late", 16))
    assert "late" not in shares(step(scheduler)[0])
    assert "late" in shares(step(scheduler)[0])


def test_without_a_connector_role_it_preempts_as_usual() -> None:
    scheduler = RecomputeScheduler(engine())
    full_pool(scheduler)
    formed, _ = step(scheduler)
    assert formed.preempted_req_ids == ["d", "c"]
    assert not scheduler.recomputed


def test_host_memory_refuses_when_it_is_full_and_answers_once_it_has_stored() -> None:
    host = CPUOffloadConnector(num_cpu_blocks=3, block_size=16)
    one, other = request("one", 30), request("other", 30)
    assert not host.update_state_before_preempt(one, [[1]], 0)
    assert not host.update_state_before_preempt(one, [[]], 20)
    assert host.update_state_before_preempt(one, [[1, 2]], 20)
    assert not host.update_state_before_preempt(other, [[3]], 10)
    assert host.get_num_new_matched_tokens(one, 0) == (None, False)
    assert host.take_transfers() == (["one"], [])
    host.store_finished("one")
    assert host.get_num_new_matched_tokens(one, 4) == (16, True)
    host.update_state_after_alloc(one, 16)
    assert host.get_num_new_matched_tokens(one, 0) == (0, False)
    assert host.take_transfers() == ([], ["one"])
    host.load_finished("one")
    assert host.num_free_blocks == 2
    host.update_state_before_preempt(other, [[3]], 10)
    assert not host.request_finished(other)
    assert host.num_free_blocks == 2


def test_a_paused_request_keeps_its_blocks_and_resumes_with_one_token() -> None:
    scheduler = DyntraLBScheduler(engine(num_gpu_blocks=40, kv_transfer=CONSUMER), RefusingConnector({}))
    full_pool(scheduler)
    free = scheduler.kv_cache_manager.block_pool.num_free_blocks
    assert scheduler.prepare().running == [3, 3, 3, 3]
    scheduler.plan = BalanceStep((3,), ())
    formed, _ = step(scheduler)
    assert list(shares(formed)) == ["b", "c", "d"]
    assert names(scheduler.skipped_waiting) == ["a"]
    assert scheduler.kv_cache_manager.block_pool.num_free_blocks == free - 3
    assert scheduler.requests["a"].num_preemptions == 0
    assert shares(step(scheduler)[0]) == {"b": 1, "c": 1, "d": 1, "a": 1}


def test_only_planned_candidates_pass() -> None:
    scheduler = DyntraLBRecomputeScheduler(engine(num_gpu_blocks=40, kv_transfer=CONSUMER), None)
    for name, prompt in (("two", 20), ("three", 40), ("also two", 20)):
        scheduler.add_request(request(name, prompt))
    assert scheduler.prepare().waiting == [2, 3, 2]
    scheduler.plan = BalanceStep((), (2, 3))
    assert list(shares(step(scheduler)[0])) == ["two", "three"]
    assert names(scheduler.skipped_waiting) == ["also two"]


def test_remote_kv_is_fetched_for_up_to_one_further_batch() -> None:
    remote = {name: {"ext": 20, "done_after_steps": 2} for name in "abcde"}
    config = engine(num_gpu_blocks=40, max_num_seqs=2, kv_transfer=CONSUMER)
    scheduler = DyntraLBScheduler(config, RefusingConnector(remote))
    for name in "abcde":
        scheduler.add_request(request(name, 20, decode=5))
    scheduler.prefetches = True
    assert scheduler.prepare().waiting == []
    loading = RequestStatus.WAITING_FOR_REMOTE_KVS
    assert names(scheduler.skipped_waiting) == ["a", "b", "c", "d"]
    assert [entry.status for entry in scheduler.skipped_waiting] == [loading] * 4
    assert names(scheduler.waiting) == ["e"]
    scheduler.finished_recving.update("ab")
    assert scheduler.prepare().waiting == [2, 2]


def test_a_step_of_prefills_takes_the_target_time() -> None:
    config = engine(max_num_batched_tokens=2048, max_model_len=8192, num_gpu_blocks=900)
    scheduler = ProfilingChunkScheduler(config, chunks=ProfilingChunkConfig(min_chunk=64))
    lengths = list(range(64, 2049, 64))
    scheduler.predictor.fit(lengths, [1e-5 * n * n + 0.01 * n + 3 for n in lengths])
    scheduler.add_request(request("long", 6000))
    scheduler.add_request(request("other", 500))
    assert shares(step(scheduler)[0]) == {"long": 2048}
    # 1e-5 x^2 + (2e-5 * 2048 + 0.01) x = 62.4 has the root 1020.6, rounded up: the time is used up.
    assert shares(step(scheduler)[0]) == {"long": 1024}


def test_no_rank_admits_while_another_is_exactly_full() -> None:
    scheduler = BalanceScheduler(engine(max_num_seqs=2), ranks=2)
    scheduler.add_request(request("r", 8))
    scheduler.running_by_rank = [0, 2]
    assert not shares(step(scheduler)[0])
    scheduler.running_by_rank = [0, 3]
    assert shares(step(scheduler)[0]) == {"r": 8}


def test_ranks_are_told_of_each_other() -> None:
    ranks = [BalanceScheduler(engine(), ranks=2) for _ in range(2)]
    ranks[0].add_request(request("r", 8, decode=3))
    step(ranks[0])
    gather_running(ranks)
    assert ranks[1].running_by_rank == [1, 0]


def decode_ranks(*prompts: list[int]) -> list[DyntraLBScheduler]:
    """Ranks with two slots each, whose first two requests run."""
    ranks = []
    for number, lengths in enumerate(prompts):
        rank = DyntraLBScheduler(engine(num_gpu_blocks=200, max_num_seqs=2, kv_transfer=CONSUMER))
        for place, length in enumerate(lengths):
            rank.add_request(request(f"{number}.{place}", length, decode=50))
        for _ in range(8):
            step(rank)
        ranks.append(rank)
    return ranks


def test_a_static_group_plans_from_its_first_step_on() -> None:
    ranks = decode_ranks([300, 20], [20, 20, 120])
    group = DyntraLBGroup(ranks, DyntraLBConfig(mode="static", start_step=1))
    group.after_iteration()
    assert ranks[1].plan is None
    group.after_iteration()
    assert ranks[1].plan == BalanceStep((2,), (8,))
    assert ranks[0].plan is not None
    assert ranks[0].plan.freeze


def test_a_dynamic_group_wakes_for_a_new_long_request_only() -> None:
    ranks = decode_ranks([300, 20], [20])
    config = DyntraLBConfig(start_step=0, long_req_block_threshold=10, dynamic_max_step=2)
    group = DyntraLBGroup(ranks, config)
    planned = []
    for _ in range(4):
        group.after_iteration()
        planned.append(ranks[0].plan is not None)
        ranks[0].plan = ranks[1].plan = None
    assert planned == [True, True, False, False]
    ranks[1].add_request(request("new", 200, decode=50))
    step(ranks[1])
    group.after_iteration()
    assert ranks[0].prefetches


def options(**given: object) -> SchedulerOptions:
    features = {
        name: {"enabled": True} if value is True and "config" in name else value
        for name, value in given.items()
        if name not in ("kv_role", "dp", "pp")
    }
    return SchedulerOptions(
        kv_role=given.get("kv_role"),  # type: ignore[arg-type]
        data_parallel_size=given.get("dp", 1),  # type: ignore[arg-type]
        pipeline_parallel_size=given.get("pp", 1),  # type: ignore[arg-type]
        scheduler_config=features,
    )


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, SchedulerKind.DEFAULT),
        ({"enable_balance_scheduling": True}, SchedulerKind.BALANCE),
        ({"short_request_first_config": True, "kv_role": "kv_producer"}, SchedulerKind.SHORT_REQUEST_FIRST),
        ({"profiling_chunk_config": True, "pp": 2}, SchedulerKind.PROFILING_CHUNK),
        (
            {"dyntra_lb_config": True, "recompute_scheduler_enable": True, "kv_role": "kv_consumer", "dp": 2},
            SchedulerKind.DYNTRA_LB_RECOMPUTE,
        ),
        ({"recompute_scheduler_enable": True, "kv_role": "kv_producer"}, SchedulerKind.DEFAULT),
        (
            {
                "recompute_scheduler_enable": True,
                "kv_role": "kv_consumer",
                "batch_job_sched_config": True,
            },
            SchedulerKind.BATCH_JOB_AWARE,
        ),
    ],
)
def test_the_scheduler_in_effect(given: dict[str, object], kind: SchedulerKind) -> None:
    assert choose_scheduler(options(**given)) is kind


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"short_request_first_config": True, "profiling_chunk_config": True}, "cannot be enabled with"),
        ({"short_request_first_config": True, "kv_role": "kv_consumer"}, "not PD-disaggregated D nodes"),
        ({"short_request_first_config": {"limit": 3}}, r"Unknown .* \['limit'\]"),
        ({"short_request_first_config": {"long_max_wait_ms": -1}}, "non-negative"),
        ({"dyntra_lb_config": True, "kv_role": "kv_consumer"}, "data_parallel_size > 1"),
        (
            {
                "dyntra_lb_config": True,
                "kv_role": "kv_consumer",
                "dp": 2,
                "enable_balance_scheduling": True,
            },
            "cannot be enabled with enable_balance_scheduling",
        ),
        ({"recompute_scheduler_enable": True}, "kv_role=None"),
        ({"profiling_chunk_config": True}, "pipeline parallelism"),
        ({"enable_balance_scheduling": True, "kv_role": "kv_consumer"}, "PD-mixed mode"),
    ],
)
def test_what_cannot_be_combined_is_refused(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(SchedulerOptionError, match=complaint):
        choose_scheduler(options(**given))
