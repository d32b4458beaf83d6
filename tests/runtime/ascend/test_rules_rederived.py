"""Queues of vllm-ascend against a second reading of their rules, as plain lists, on random scenarios."""

from __future__ import annotations

import math
from random import Random
from typing import Any, Literal

import pytest

from serq.runtime.ascend.batch_job_aware import (
    BatchJobAwareConfig,
    BatchJobAwareRequestQueue,
    admission_budget,
)
from serq.runtime.ascend.block_reserve import RunningBlockReserver
from serq.runtime.ascend.job_decode import JobDecodeEstimator, job_name
from serq.runtime.ascend.short_request_first import ShortRequestFirstConfig, ShortRequestFirstRequestQueue
from serq.runtime.vllm.request import Request, RequestStatus
from tests.runtime.ascend.ascend_requests import names, request

Policy = Literal["fcfs", "priority"]


class Lanes:
    """V-001 to V-010: three lists, stamps of the long lane, a pin."""

    def __init__(self, threshold: int, long_max_wait_ms: float, policy: Policy) -> None:
        self.threshold, self.limit, self.policy = threshold, long_max_wait_ms, policy
        self.lanes: dict[str, list[Request]] = {"immediate": [], "short": [], "long": []}
        self.stamps: dict[str, float] = {}
        self.pin: tuple[str, str] | None = None
        self.now = 0.0

    def order(self, lane: str) -> list[Request]:
        if self.policy == "fcfs":
            return self.lanes[lane]
        return sorted(self.lanes[lane], key=lambda r: (r.priority, r.arrival_time, r.request_id))

    def put(self, r: Request, front: bool) -> None:
        lane = "long"
        if r.status is RequestStatus.PREEMPTED or r.num_computed_tokens > 0 or r.num_output_tokens > 0:
            lane = "immediate"
        elif r.num_prompt_tokens <= self.threshold:
            lane = "short"
        self.lanes[lane].insert(0 if front else len(self.lanes[lane]), r)
        if lane == "long":
            self.stamps.setdefault(r.request_id, self.now)
        self.pin = None

    def select(self) -> str:
        if self.pin is not None:
            lane, name = self.pin
            if self.lanes[lane] and self.order(lane)[0].request_id == name:
                return lane
        if self.lanes["immediate"]:
            return "immediate"
        if self.lanes["long"] and self.lanes["short"] and self.limit > 0:
            waited = (self.now - self.stamps[self.order("long")[0].request_id]) * 1000
            if waited >= self.limit:
                return "long"
        return "short" if self.lanes["short"] else "long"

    def take(self, r: Request) -> None:
        for lane in self.lanes.values():
            if r in lane:
                lane.remove(r)
        self.stamps.pop(r.request_id, None)
        self.pin = None

    def peek(self) -> str | None:
        if not any(self.lanes.values()):
            return None
        lane = self.select()
        head = self.order(lane)[0].request_id
        self.pin = (lane, head)
        return head

    def pop(self) -> str | None:
        if not any(self.lanes.values()):
            return None
        head = self.order(self.select())[0]
        self.take(head)
        return head.request_id


def attempt(act: Any) -> str | None:
    try:
        return act().request_id  # type: ignore[no-any-return]
    except IndexError:
        return None


def waiting_requests(draw: Random, number: int, count: int, rules: Lanes) -> list[Request]:
    batch = []
    for part in range(count):
        r = request(f"n{number}-{part}", draw.choice([1, 8, 9, 256, 257]))
        r.priority, r.arrival_time = draw.randint(0, 2), rules.now
        if draw.random() < 0.2:
            r.status = RequestStatus.PREEMPTED
        r.num_computed_tokens = draw.choice([0, 0, 0, 5])
        batch.append(r)
    return batch


def enter(queue: ShortRequestFirstRequestQueue, act: str, batch: list[Request]) -> None:
    if act == "add":
        queue.add_request(batch[0])
    elif act == "prepend":
        queue.prepend_request(batch[0])
    else:
        queue.prepend_requests(batch)


@pytest.mark.parametrize("seed", range(60))
def test_lanes(seed: int) -> None:
    draw = Random(seed)
    policy: Policy = draw.choice(["fcfs", "priority"])
    threshold, limit = draw.choice([0, 8, 256]), draw.choice([0.0, 2.0, 5.5])
    rules = Lanes(threshold, limit, policy)
    queue = ShortRequestFirstRequestQueue(
        ShortRequestFirstConfig(threshold, limit), lambda: rules.now, policy=policy
    )
    made: list[Request] = []
    for number in range(150):
        rules.now += draw.choice([0, 0, 0.0005, 0.001, 0.003])
        act = draw.choice(["add", "add", "add", "prepend", "prepend_many", "peek", "peek", "pop", "remove"])
        here = [r for lane in rules.lanes.values() for r in lane]
        if act in ("add", "prepend", "prepend_many"):
            batch = waiting_requests(draw, number, draw.randint(1, 3) if act == "prepend_many" else 1, rules)
            made += batch
            for r in reversed(batch):
                rules.put(r, front=act != "add")
            enter(queue, act, batch)
        elif act == "remove" and made:
            gone = draw.sample(made, min(2, len(made)))
            queue.remove_requests(gone)
            rules.pin = None
            for r in gone:
                if r in here:
                    rules.take(r)
        elif act == "peek":
            assert attempt(queue.peek_request) == rules.peek()
        elif act == "pop":
            assert attempt(queue.pop_request) == rules.pop()
        for lane in ("immediate", "short", "long"):
            assert names(queue.lane(lane)) == names(rules.order(lane)), (number, act, lane)  # type: ignore[arg-type]
        assert names(queue) == [n for lane in rules.lanes for n in names(rules.order(lane))]


class Jobs:
    """V-024 to V-033: everybody in order of coming; who is cold; who was chosen."""

    def __init__(self, options: BatchJobAwareConfig) -> None:
        self.options = options
        self.here: list[Request] = []
        self.jobs: list[str] = []
        self.counts: dict[str, int] = {}
        self.cold: dict[str, set[str]] = {}
        self.chosen: Request | None = None
        self.means: dict[str, list[float]] = {}
        self.lengths: dict[str, list[int]] = {}

    def add(self, r: Request) -> None:
        job = job_name(r.request_id)
        if job not in self.jobs:
            self.jobs.append(job)
            self.lengths[job] = []
        if r.num_prompt_tokens not in self.lengths[job]:
            self.lengths[job].append(r.num_prompt_tokens)
        self.here.append(r)
        self.counts[job] = self.counts.get(job, 0) + 1
        if self.counts[job] <= 3:
            self.cold.setdefault(job, set()).add(r.request_id)

    def remove(self, r: Request) -> None:
        if r not in self.here:
            return
        self.here.remove(r)
        job = job_name(r.request_id)
        if not any(o.num_prompt_tokens == r.num_prompt_tokens for o in self.of(job)):
            self.lengths[job].remove(r.num_prompt_tokens)
        if job in self.cold:
            self.cold[job].discard(r.request_id)
            if not self.cold[job]:
                del self.cold[job]
        if not self.of(job):
            self.jobs.remove(job)
            del self.counts[job]

    def of(self, job: str) -> list[Request]:
        return [r for r in self.here if job_name(r.request_id) == job]

    def bucket(self, job: str) -> list[Request]:
        return [r for n in self.lengths[job] for r in self.of(job) if r.num_prompt_tokens == n]

    def predict(self, job: str) -> int:
        mean = None
        for sample in self.means.get(job, [])[:10]:
            mean = float(sample) if mean is None else 0.1 * sample + 0.9 * mean
        return 128 if mean is None else int(mean)

    def pick(self, budget: int) -> Request | None:
        if budget <= 0 or not self.here:
            return None
        for job, cold in self.cold.items():
            for r in self.bucket(job):
                if r.request_id in cold:
                    return r
        long = [job for job in self.jobs if self.predict(job) > self.options.short_decode_token_threshold]
        short = [job for job in self.jobs if job not in long]
        ample = budget > self.options.low_available_tokens_threshold
        ordered = sorted(long, key=self.predict, reverse=True), sorted(short, key=self.predict, reverse=True)
        if long and short:
            jobs = ordered[0] + ordered[1] if ample else ordered[1] + ordered[0]
        else:
            jobs = sorted(long or short, key=self.predict, reverse=ample)
        lengths = sorted(self.lengths[jobs[0]])
        fitting = [n for n in lengths if n <= budget]
        best = fitting[-1] if fitting else lengths[0]
        return next(r for r in self.of(jobs[0]) if r.num_prompt_tokens == best)


@pytest.mark.parametrize("seed", range(60))
def test_jobs(seed: int) -> None:
    draw = Random(seed)
    options = BatchJobAwareConfig(
        max_jobs=0,
        low_available_tokens_threshold=draw.choice([50, 300, 4096]),
        short_decode_token_threshold=draw.choice([8, 32]),
    )
    rules, budget = Jobs(options), 1000
    estimator = JobDecodeEstimator(99)
    queue = BatchJobAwareRequestQueue(options, estimator, lambda: budget)
    made: list[Request] = []
    for number in range(150):
        act = draw.choice(
            ["add", "add", "add", "prepend", "peek", "pop", "pop", "remove", "observe", "budget"]
        )
        if act in ("add", "prepend"):
            r = request(f"#job_name[{draw.choice('ABC')}]#{number}", draw.choice([16, 64, 65, 200, 700]))
            made.append(r)
            rules.add(r)
            (queue.add_request if act == "add" else queue.prepend_request)(r)
        elif act == "remove" and made:
            r = draw.choice(made)
            rules.remove(r)
            queue.remove_requests((r,))
        elif act == "observe":
            job, tokens = draw.choice("ABC"), draw.choice([4, 9, 33, 200])
            rules.means.setdefault(job, []).append(tokens)
            estimator.observe(job, tokens)
        elif act == "budget":
            budget = draw.choice([0, 16, 60, 299, 5000])
        elif act == "peek":
            rules.chosen = rules.chosen or rules.pick(budget)
            assert attempt(queue.peek_request) == (rules.chosen and rules.chosen.request_id)
        elif act == "pop":
            chosen = rules.chosen or rules.pick(budget)
            rules.chosen = None
            assert attempt(queue.pop_request) == (chosen and chosen.request_id)
            if chosen is not None:
                rules.remove(chosen)
        assert bool(queue) == (rules.pick(budget) is not None)
        assert names(queue) == [n for job in rules.jobs for n in names(rules.bucket(job))]
        assert len(queue) == len(rules.here)


@pytest.mark.parametrize("seed", range(40))
def test_reserve(seed: int) -> None:
    """V-027, V-028 by enumeration: two rounds token by token, blocks opened in the second."""
    draw = Random(seed)
    size, most, ahead = draw.choice([4, 16]), draw.choice([8, 64]), draw.choice([0, 2])
    most_blocks = draw.choice([8, 1000])
    running: list[Request] = []
    reserver = RunningBlockReserver(
        lambda: running,
        block_size=size,
        max_num_scheduled_tokens=most,
        num_lookahead_tokens=ahead,
        margin_blocks=2,
        max_blocks=most_blocks,
    )
    known: list[int] = []
    counted: int | None = None

    def blocks(r: Request) -> int:
        position = r.num_computed_tokens
        for _ in range(2):
            left = r.num_prompt_tokens - position
            before, position = position, position + (min(left, most) if left > 0 else 1 + ahead)
        return math.ceil(position / size) - math.ceil(before / size)

    for number in range(60):
        act = draw.choice(["run", "advance", "drop", "step"])
        if act == "run":
            running.append(request(f"r{number}", draw.choice([1, 15, 16, 100])))
            running[-1].num_computed_tokens = draw.choice([0, 3, 16, 40])
        elif act == "advance" and running:
            draw.choice(running).num_computed_tokens += draw.choice([1, 5])
        elif act == "drop" and running:
            running.remove(draw.choice(running))
        elif act == "step":
            reserver.invalidate()
            counted = None
        if counted is not None and len(running) == counted + 1:
            known = [*known, blocks(running[-1])]
        elif len(running) != counted:
            known = [blocks(r) for r in running]
        counted = len(running)
        expected = min(sum(known) + 2, most_blocks)
        assert reserver.predict() == expected
        assert admission_budget(10, expected, size) == max(0, 10 - expected) * size
