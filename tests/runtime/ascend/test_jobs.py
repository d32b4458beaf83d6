"""The BatchJobAware queue and what it estimates (V-019 to V-036)."""

import pytest

from serq.runtime.ascend.batch_job_aware import (
    BatchJobAwareConfig,
    BatchJobAwareRequestQueue,
    JobBucket,
    admission_budget,
)
from serq.runtime.ascend.batch_job_scheduler import BatchJobAwareScheduler
from serq.runtime.ascend.block_reserve import RunningBlockReserver
from serq.runtime.ascend.job_decode import JobDecodeEstimator, TooManyJobsError, job_name
from serq.runtime.upstream_defects import UpstreamCrashError
from serq.runtime.vllm.request import Request, RequestStatus
from tests.runtime.ascend.ascend_requests import engine, names, request, shares, step


def job(name: str, number: int) -> str:
    return f"#job_name[{name}]#{number}"


class Jobs:
    """A queue with a budget that the test sets."""

    def __init__(self, budget: int = 10_000, **options: object) -> None:
        self.budget = budget
        self.estimator = JobDecodeEstimator(20)
        config = BatchJobAwareConfig(**options)  # type: ignore[arg-type]
        self.queue = BatchJobAwareRequestQueue(config, self.estimator, lambda: self.budget)

    def add(self, name: str, *prompts: int) -> None:
        for number, prompt in enumerate(prompts):
            self.queue.add_request(request(job(name, number), prompt))

    def pop_warm(self, count: int) -> list[str]:
        """Pop past the cold-start requests."""
        for _ in range(count):
            self.queue.pop_request()
        return [self.queue.pop_request().request_id for _ in range(len(self.queue))]


def test_job_names() -> None:
    assert job_name("a#job_name[x y]#b#job_name[z]#") == "x y"
    assert job_name("#job_name[]#") == job_name("plain") == "__default__"


def test_the_estimate_is_a_truncated_moving_average_of_ten_answers() -> None:
    estimator = JobDecodeEstimator(1)
    assert estimator.predict("a") == 128
    estimator.observe("a", 10)
    estimator.observe("a", 99)
    assert estimator.predict("a") == 18  # 0.1 * 99 + 0.9 * 10 = 18.9
    for _ in range(20):
        estimator.observe("a", 1000)
    assert estimator.jobs["a"].count == 10
    with pytest.raises(TooManyJobsError):
        estimator.observe("b", 1)


def test_best_fit_is_the_longest_within_the_budget_or_the_shortest_of_all() -> None:
    bucket = JobBucket()
    for number, prompt in enumerate((30, 50, 40, 50)):
        bucket.add(request(str(number), prompt))
    assert bucket.best_fit(50).request_id == "1"
    assert bucket.best_fit(49).request_id == "2"
    assert bucket.best_fit(3).request_id == "0"
    assert names(bucket) == ["0", "1", "3", "2"]


def test_cold_start_requests_go_first_three_a_job() -> None:
    jobs = Jobs()
    jobs.add("A", 10, 20, 30, 40)
    jobs.add("B", 10, 20, 30, 40)
    cold = [jobs.queue.pop_request().request_id for _ in range(6)]
    assert cold == [job(name, number) for name in "AB" for number in range(3)]


def test_long_answers_first_with_room_and_short_ones_without() -> None:
    jobs = Jobs()
    jobs.estimator.observe("long", 500)
    jobs.estimator.observe("short", 32)  # equality is short
    jobs.add("short", 10, 10, 10, 10)
    jobs.add("long", 10, 10, 10, 10)
    for _ in range(6):
        jobs.queue.pop_request()
    jobs.budget = 4096
    assert jobs.queue.peek_request().request_id == job("short", 3)
    jobs.budget = 4097
    assert jobs.queue.pop_request().request_id == job("short", 3), "a peek is not taken back"
    assert jobs.queue.pop_request().request_id == job("long", 3)


def test_one_kind_alone_is_served_longest_first_with_room_and_shortest_first_without() -> None:
    for budget, first in ((5000, "b"), (50, "a")):
        jobs = Jobs()
        jobs.estimator.observe("a", 100)
        jobs.estimator.observe("b", 200)
        jobs.add("a", 9, 9, 9, 9)
        jobs.add("b", 9, 9, 9, 9)
        jobs.budget = budget
        assert jobs.pop_warm(6)[0] == job(first, 3)


def test_nothing_is_admitted_without_budget_though_requests_wait() -> None:
    jobs = Jobs(budget=0)
    jobs.add("A", 10)
    assert not jobs.queue
    assert len(jobs.queue) == 1
    with pytest.raises(IndexError):
        jobs.queue.peek_request()


def test_an_emptied_job_is_cold_again() -> None:
    jobs = Jobs()
    for number in range(9):
        jobs.queue.add_request(request(job("A", number), 10))
        assert jobs.queue.cold == {"A": {job("A", number)}}
        jobs.queue.pop_request()
        assert jobs.queue.jobs == jobs.queue.cold == jobs.queue.added == {}


@pytest.mark.parametrize("keeps", [True, False])
def test_an_aborted_request_stays_peeked_unless_that_is_switched_off(keeps: bool) -> None:
    jobs = Jobs(keeps_removed_peek=keeps)
    jobs.add("A", 10, 20)
    peeked = jobs.queue.peek_request()
    jobs.queue.remove_requests((peeked,))
    assert (jobs.queue.peek_request() is peeked) is keeps


def test_one_job_too_many_is_refused_and_zero_means_no_limit() -> None:
    jobs = Jobs(max_jobs=1)
    jobs.add("A", 10)
    with pytest.raises(TooManyJobsError, match="max_jobs = 1"):
        jobs.add("B", 10)
    assert len(jobs.queue) == 1
    free = Jobs(max_jobs=0)
    free.add("A", 10)
    free.add("B", 10)
    with pytest.raises(ValueError, match="max_jobs"):
        BatchJobAwareConfig(max_jobs=-1)


def running(computed: int, prompt: int) -> Request:
    entry = request(f"{computed}/{prompt}", prompt)
    entry.num_computed_tokens = computed
    return entry


def reserver(entries: list[Request], max_blocks: int = 1000) -> RunningBlockReserver:
    return RunningBlockReserver(
        lambda: entries,
        block_size=16,
        max_num_scheduled_tokens=64,
        num_lookahead_tokens=0,
        margin_blocks=2,
        max_blocks=max_blocks,
    )


def test_the_reserve_is_what_the_round_after_the_next_needs() -> None:
    assert reserver([]).predict() == 2
    assert reserver([running(30, 20)]).predict() == 2  # 31, then 32: still in its block
    assert reserver([running(31, 20)]).predict() == 3  # 32 fills the block, 33 needs another
    assert reserver([running(0, 200)]).predict() == 6  # 64, then 64 more: four blocks
    assert reserver([running(0, 200)], max_blocks=5).predict() == 5


def test_the_reserve_is_kept_while_as_many_run() -> None:
    entries = [running(31, 20)]
    kept = reserver(entries)
    assert kept.predict() == 3
    entries[0].num_computed_tokens = 20
    assert kept.predict() == 3
    entries.append(running(31, 20))
    assert kept.predict() == 4
    kept.invalidate()
    assert kept.predict() == 3


def test_the_budget_is_never_negative() -> None:
    assert admission_budget(10, 4, 16) == 96
    assert admission_budget(3, 8, 16) == 0


def test_only_answers_that_ended_by_themselves_are_learnt() -> None:
    scheduler = BatchJobAwareScheduler(engine(num_gpu_blocks=50))
    scheduler.add_request(request(job("stops", 0), 10, decode=3, stops=True))
    scheduler.add_request(request(job("capped", 0), 10, decode=3))
    for _ in range(3):
        step(scheduler)
    assert {name: samples.average for name, samples in scheduler.estimator.jobs.items()} == {"stops": 3.0}


def test_an_engine_dies_where_upstream_does_of_a_stale_choice() -> None:
    scheduler = BatchJobAwareScheduler(engine(num_gpu_blocks=14))
    scheduler.add_request(request(job("A", 0), 60, decode=3))
    scheduler.add_request(request(job("A", 1), 150, decode=3))
    scheduler.add_request(request(job("A", 2), 10, decode=3))
    assert shares(step(scheduler)[0]) == {job("A", 0): 60}
    scheduler.finish_requests([job("A", 1)], RequestStatus.FINISHED_ABORTED)
    step(scheduler)
    step(scheduler)
    with pytest.raises(UpstreamCrashError, match="FINISHED_ABORTED") as crash:
        step(scheduler)
    assert crash.value.upstream_type == "RuntimeError"
