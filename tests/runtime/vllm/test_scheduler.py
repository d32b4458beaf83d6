"""Single steps of the scheduler, with shares derived by hand from the rules."""

from __future__ import annotations

import pytest

from serq.runtime.vllm.request import Request, RequestStatus
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_base import FormingStep, PauseState
from serq.runtime.vllm.scheduler_output import RequestOutput, SchedulerOutput
from tests.runtime.vllm.harness import Harness

SMALL = {"max_num_batched_tokens": 6, "max_num_seqs": 6, "max_model_len": 128, "num_gpu_blocks": 64}


# ---- the example of the seed: budget 6, B decodes, A has a prompt of 12 -------------


def running_b(max_tokens: int, **flags: object) -> Harness:
    engine = Harness(**{**SMALL, **flags})
    engine.add("B", 4, max_tokens)
    assert engine.step() == {"B": 4}
    return engine


def test_seed_b_goes_on_and_a_runs_5_5_2() -> None:
    engine = running_b(12)
    engine.add("A", 12)
    assert engine.steps(4) == [{"B": 1, "A": 5}, {"B": 1, "A": 5}, {"B": 1, "A": 2}, {"B": 1, "A": 1}]


def test_seed_b_ends_after_the_first_and_a_runs_5_6_1() -> None:
    engine = running_b(2)
    engine.add("A", 12)
    assert engine.steps(4) == [{"B": 1, "A": 5}, {"A": 6}, {"A": 1}, {"A": 1}]


def test_seed_without_chunking_a_never_starts() -> None:
    engine = running_b(
        4, enable_chunked_prefill=False, max_num_batched_tokens=128, max_num_scheduled_tokens=6
    )
    engine.add("A", 12)
    assert engine.steps(4) == [{"B": 1}, {"B": 1}, {"B": 1}, {}]
    assert engine.names(engine.scheduler.waiting) == ["A"]


def test_seed_without_chunking_a_smaller_prompt_waits_for_the_whole_budget() -> None:
    engine = running_b(
        3, enable_chunked_prefill=False, max_num_batched_tokens=128, max_num_scheduled_tokens=6
    )
    engine.add("A", 6)
    engine.add("C", 2)
    assert engine.steps(3) == [{"B": 1}, {"B": 1}, {"A": 6}]


# ---- budget, threshold, limits ---------------------------------------------------------


def test_threshold_caps_every_share() -> None:
    engine = Harness(**SMALL, long_prefill_token_threshold=4)
    engine.add("A", 9)
    engine.add("B", 9)
    assert engine.steps(4) == [{"A": 4, "B": 2}, {"A": 4, "B": 2}, {"A": 1, "B": 4}, {"A": 1, "B": 1}]


def test_no_more_requests_run_than_allowed() -> None:
    engine = Harness(**{**SMALL, "max_num_seqs": 2})
    for name in "ABC":
        engine.add(name, 1, 2)
    assert engine.steps(3) == [{"A": 1, "B": 1}, {"A": 1, "B": 1}, {"C": 1}]


def test_a_sequence_ends_at_max_model_len() -> None:
    engine = Harness(max_num_batched_tokens=16, max_num_seqs=4, max_model_len=8)
    request = engine.add("A", 5)
    engine.steps(3)
    assert request.status is RequestStatus.FINISHED_LENGTH_CAPPED
    assert (request.num_tokens, request.num_computed_tokens) == (8, 7)


@pytest.mark.parametrize(
    ("fields", "outputs", "status"),
    [
        ({"max_tokens": 3}, 3, RequestStatus.FINISHED_LENGTH_CAPPED),
        ({"end_at": 1}, 2, RequestStatus.FINISHED_STOPPED),
        ({"end_at": 2, "max_tokens": 3}, 3, RequestStatus.FINISHED_STOPPED),
        ({"end_at": 1, "min_tokens": 2}, 2, RequestStatus.FINISHED_STOPPED),
        ({"end_at": 1, "min_tokens": 3, "max_tokens": 5}, 5, RequestStatus.FINISHED_LENGTH_CAPPED),
        ({"repeat_at": 2, "repetition_count": 3}, 5, RequestStatus.FINISHED_REPETITION),
        ({"repeat_at": 0, "repetition_count": 2, "min_tokens": 4}, 4, RequestStatus.FINISHED_REPETITION),
        ({"repeat_at": 0, "repetition_count": 1, "max_tokens": 6}, 6, RequestStatus.FINISHED_LENGTH_CAPPED),
    ],
)
def test_stop_rules(fields: dict[str, int], outputs: int, status: RequestStatus) -> None:
    """S-099: min_tokens, then end tokens, then lengths, then repetition."""
    engine = Harness(**SMALL)
    request = engine.add("A", 2, **fields)
    engine.steps(outputs)
    assert (request.num_output_tokens, request.status) == (outputs, status)


def test_an_empty_step_reports_the_last_finish() -> None:
    engine = Harness(**SMALL)
    engine.add("A", 2, 1)
    engine.step()
    last = engine.launch()
    assert (last.scheduled, last.finished_req_ids) == ({}, {"A"})
    engine.finish()
    assert not engine.scheduler.has_requests


# ---- memory ----------------------------------------------------------------------------


def crowded(policy: str = "fcfs") -> Harness:
    """Blocks of 16: A (20 tokens) holds 2 and will need a third when it has 32, of 4 usable ones."""
    engine = Harness(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=128, num_gpu_blocks=5, policy=policy
    )
    engine.add("A", 20)
    engine.add("B", 20)
    assert engine.step() == {"A": 20, "B": 20}
    return engine


def test_the_last_to_come_gives_way_and_nobody_is_admitted_in_that_step() -> None:
    engine = crowded()
    engine.add("C", 1)
    engine.steps(12)
    step = engine.launch()
    assert step.preempted_req_ids == ["B"]
    assert list(step.scheduled) == ["A"]
    assert engine.names(engine.scheduler.waiting) == ["B", "C"]


def test_a_resumed_request_computes_its_outputs_again_but_for_what_is_cached() -> None:
    """B had 20 + 13 tokens, whole blocks 16 and 32; the last token is never taken from the cache."""
    engine = crowded()
    engine.steps(12)
    b = engine.scheduler.running[1]
    engine.step()
    assert b.status is RequestStatus.PREEMPTED
    assert (b.num_tokens, b.num_computed_tokens) == (33, 0)
    engine.scheduler.finish_requests(["A"], RequestStatus.FINISHED_ABORTED)
    step = engine.launch()
    share = step.scheduled["B"]
    assert share.kind == "resumed"
    assert step.hits["B"] == (share.num_computed_tokens, 0)
    assert share.num_computed_tokens + share.num_tokens == 33


def test_priority_takes_the_least_urgent_wherever_it_stands() -> None:
    engine = Harness(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=128, num_gpu_blocks=5, policy="priority"
    )
    engine.add("A", 20, priority=2)
    engine.add("B", 23, priority=1)
    assert engine.steps(10)[-1] == {"B": 1, "A": 1}
    step = engine.launch()
    assert step.preempted_req_ids == ["A"]
    assert list(step.scheduled) == ["B"]


def test_priority_may_take_a_share_back() -> None:
    """A stands first and has its share when B, more urgent, needs a block: the share returns (S-042)."""
    engine = Harness(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=128, num_gpu_blocks=5, policy="priority"
    )
    a = engine.add("A", 20, priority=2)
    engine.step()
    engine.add("B", 23, priority=1)
    assert engine.steps(10)[-1] == {"A": 1, "B": 1}
    step = engine.launch()
    assert (step.preempted_req_ids, list(step.scheduled)) == (["A"], ["B"])
    assert (a.num_computed_tokens, a.num_in_flight_tokens) == (0, 0)


def test_who_must_give_way_to_himself_ends_the_loop() -> None:
    """A is the least urgent and needs a block first: nobody gets a share in that step (S-027)."""
    engine = Harness(
        max_num_batched_tokens=64, max_num_seqs=4, max_model_len=128, num_gpu_blocks=5, policy="priority"
    )
    engine.add("A", 23, priority=2)
    engine.step()
    engine.add("B", 20, priority=1)
    engine.steps(9)
    step = engine.launch()
    assert (step.preempted_req_ids, step.scheduled) == (["A"], {})


def test_full_sequence_test_keeps_out_what_would_not_fit() -> None:
    """4 usable blocks, A holds 1: 60 tokens need 4 in the end although the first chunk needs 1."""
    flags = {"max_num_batched_tokens": 20, "max_num_seqs": 4, "max_model_len": 128, "num_gpu_blocks": 5}
    for reserve, shares in ((True, {"A": 1}), (False, {"A": 1, "B": 19})):
        engine = Harness(**flags, scheduler_reserve_full_isl=reserve)
        engine.add("A", 10)
        engine.step()
        engine.add("B", 60)
        assert engine.step() == shares


def test_watermark_holds_only_beside_running_requests() -> None:
    """A watermark of 2 of 10 blocks: of 9 usable ones A takes 6, B would leave 1."""
    engine = Harness(
        max_num_batched_tokens=256, max_num_seqs=4, max_model_len=256, num_gpu_blocks=10, watermark=0.2
    )
    engine.add("A", 90, 3)
    engine.add("B", 32)
    assert engine.steps(3) == [{"A": 90}, {"A": 1}, {"A": 1}]
    assert engine.step() == {"B": 32}


def test_head_of_line_blocks_on_memory() -> None:
    engine = crowded()
    engine.add("C", 40)
    engine.add("D", 1)
    assert engine.step() == {"A": 1, "B": 1}
    assert engine.names(engine.scheduler.waiting) == ["C", "D"]


# ---- prefix cache ------------------------------------------------------------------------


def test_equal_prompts_of_one_step_share_blocks() -> None:
    engine = Harness(max_num_batched_tokens=256, max_num_seqs=4, max_model_len=256, num_gpu_blocks=20)
    engine.add("A", [("doc", 0, 40)])
    engine.add("B", [("doc", 0, 33), ("B", 33, 2)])
    step = engine.launch()
    assert step.hits == {"A": (0, 0), "B": (32, 0)}
    assert (engine.blocks("A"), engine.blocks("B")) == ([1, 2, 3], [1, 2, 4])
    assert step.num_common_prefix_blocks == [2]


def test_a_fully_cached_prompt_computes_its_last_block_again() -> None:
    engine = Harness(max_num_batched_tokens=256, max_num_seqs=4, max_model_len=256, num_gpu_blocks=20)
    engine.add("A", [("doc", 0, 32)], 1)
    engine.step()
    engine.add("B", [("doc", 0, 32)])
    assert engine.launch().hits == {"B": (16, 0)}


def test_who_does_not_read_the_cache_still_fills_it() -> None:
    engine = Harness(max_num_batched_tokens=256, max_num_seqs=4, max_model_len=256, num_gpu_blocks=20)
    for name in "AB":
        engine.add(name, [("doc", 0, 40)], 1, skip_reading_prefix_cache=True)
    engine.add("C", [("doc", 0, 40)], 1)
    assert engine.launch().hits == {"A": (0, 0), "B": (0, 0), "C": (32, 0)}


# ---- control ---------------------------------------------------------------------------------


def test_pause() -> None:
    engine = running_b(10)
    engine.add("A", 2)
    engine.scheduler.pause_state = PauseState.PAUSED_NEW
    assert engine.step() == {"B": 1}
    engine.scheduler.pause_state = PauseState.PAUSED_ALL
    assert not engine.scheduler.has_requests
    engine.scheduler.pause_state = PauseState.UNPAUSED
    assert engine.step() == {"B": 1, "A": 2}


def test_forced_reset_keeps_the_order_and_readmits_at_once() -> None:
    engine = Harness(**{**SMALL, "max_num_batched_tokens": 20})
    for name in "AB":
        engine.add(name, 3)
    engine.step()
    succeeded, preempted = engine.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert (succeeded, engine.names(preempted)) == (True, ["B", "A"])
    step = engine.launch()
    assert {name: share.kind for name, share in step.scheduled.items()} == {"A": "resumed", "B": "resumed"}
    assert list(step.scheduled) == ["A", "B"]


def test_cadence_defers_prefills_beside_decodes() -> None:
    """Interval 2 (S-150): on odd steps a decode runs alone unless the last release left somebody waiting."""
    engine = running_b(10, prefill_schedule_interval=2, max_num_batched_tokens=20)
    engine.add("A", 5)
    assert engine.steps(2) == [{"B": 1}, {"B": 1, "A": 5}]


# ---- hooks -------------------------------------------------------------------------------------


class Relative(VllmScheduler):
    """Overrides every hook in a way that shows."""

    def cap_share(self, step: FormingStep, request: Request, num_tokens: int) -> int:
        return min(2, super().cap_share(step, request, num_tokens))

    def may_admit(self, request: Request) -> bool:
        return request.request_id != "barred"

    def has_slot(self) -> bool:
        return len(self.running) < 3

    def admission_open(self, step: FormingStep) -> bool:
        return len(self.running) < 2 and super().admission_open(step)

    def pick_victim(self, request: Request) -> Request:
        return self.running[0]

    def on_shortage(self, step: FormingStep, request: Request) -> Request:
        victim = self.pick_victim(request)
        self.withdraw(step, victim)
        step.preempted.append(victim)
        self.finish_requests([victim.request_id], RequestStatus.FINISHED_ABORTED)
        return victim

    def after_update(self, step: SchedulerOutput, outputs: list[RequestOutput]) -> list[RequestOutput]:
        return [*outputs, *outputs]


def test_hooks_shape_shares_and_admission() -> None:
    engine = Harness(scheduler_class=Relative, **SMALL)
    for name in ("barred", "A", "B", "C", "D"):
        engine.add(name, 3)
    assert engine.step() == {"A": 2, "B": 2, "C": 2}
    assert engine.names(engine.scheduler.skipped_waiting) == ["barred"]
    assert engine.names(engine.scheduler.waiting) == ["D"]
    engine.launch()
    assert len(engine.finish()) == 6


def test_a_victim_may_be_finished_instead_of_preempted() -> None:
    engine = Harness(
        scheduler_class=Relative,
        max_num_batched_tokens=64,
        max_num_seqs=4,
        max_model_len=64,
        num_gpu_blocks=3,
    )
    a = engine.add("A", 2)
    engine.add("B", 2)
    while not engine.launch().preempted_req_ids:
        engine.finish()
    assert a.status is RequestStatus.FINISHED_ABORTED
    assert "A" not in engine.scheduler.requests
    assert engine.names(engine.scheduler.running) == ["B"]
