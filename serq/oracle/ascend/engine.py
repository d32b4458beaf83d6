"""Replays of recorded schedulers: kinds ``sched`` and ``balance_sched``."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from serq.oracle.ascend.clock import ReplayClock
from serq.oracle.ascend.queues import job_stats
from serq.oracle.ascend.requests import STOP_TOKEN, create_request, output_token
from serq.oracle.ascend.schedulers import RecordedEngine, create_engine
from serq.oracle.ascend.workers import TransferWorker
from serq.runtime.ascend.balance import BalanceScheduler
from serq.runtime.ascend.balance_plan import BalanceStep
from serq.runtime.ascend.batch_job_scheduler import BatchJobAwareScheduler
from serq.runtime.ascend.cpu_offload import CPUOffloadConnector
from serq.runtime.ascend.dyntra import DyntraLBPolicy
from serq.runtime.ascend.recompute import RecomputeScheduler
from serq.runtime.ascend.short_request_first import LANES, ShortRequestFirstRequestQueue
from serq.runtime.upstream_defects import UpstreamCrashError
from serq.runtime.vllm.request import RequestStatus
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput
from serq.runtime.vllm.tokens import PrefixHasher

Document = dict[str, Any]

FINISH_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_RECOMPUTED: "stop",
}


@dataclass(slots=True)
class StepInFlight:
    """A formed step, its record and the transfers it began."""

    step: SchedulerOutput
    record: Document
    transfers: tuple[list[str], list[str]]

    @property
    def end_us(self) -> int:
        """When the device has run it."""
        return int(self.record["end_us"])

    @property
    def is_empty(self) -> bool:
        """Whether it computes nothing."""
        return self.step.total_num_scheduled_tokens == 0


class EngineReplay:
    """One recorded scheduler, driven in the loop that the recording was made with.

    Arrivals and aborts are taken in between steps; the device runs steps back to back; with depth 2 a step is
    formed before the one before it is processed.
    """

    def __init__(self, document: Document) -> None:
        config = document["config"]
        self.document = document
        self.clock = ReplayClock()
        self.now = 0
        engine: RecordedEngine = create_engine(config, self.clock.seconds)
        self.scheduler = engine.scheduler
        self.connector = engine.connector
        self.upstream_class = engine.upstream_class
        self.steps: list[Document] = []
        self._worker = TransferWorker(engine.connector, config)
        self._hasher = PrefixHasher(self.scheduler.config.block_sizes[1])
        self._arrivals = deque(
            sorted(enumerate(document["requests"]), key=lambda arrival: (arrival[1]["t_us"], arrival[0]))
        )
        self._aborts = deque(sorted(document.get("aborts", ()), key=lambda abort: abort["t_us"]))
        self._plans = {int(step): plan for step, plan in (document.get("modifications") or {}).items()}
        self._in_flight: deque[StepInFlight] = deque()
        self._depth = document.get("pipeline_depth", 1)
        self._device_free = 0
        self._empty_steps = 0

    def run(self) -> Document:
        """Replay to the end, or to where the recorded engine died."""
        result: Document = {"scheduler_class": self.upstream_class, "steps": self.steps}
        try:
            while len(self.steps) < self.document.get("max_steps", 400) and self._turn():
                pass
        except UpstreamCrashError as crash:
            result["exception"] = {"type": crash.upstream_type, "message": crash.upstream_message}
        result["unfinished"] = sorted(self.scheduler.requests)
        return result

    # ---- the loop -------------------------------------------------------------

    def _turn(self) -> bool:
        """One turn of the loop; False when it is over."""
        aborted = self._abort_due()
        self._admit_due()
        if not self.scheduler.has_requests and not self._in_flight:
            if not self._arrivals:
                return False
            self.now = self._arrivals[0][1]["t_us"]
            return True
        if self.scheduler.has_requests and len(self._in_flight) < self._depth:
            self._launch(aborted)
            if self._gives_up():
                self._finish(self._in_flight.popleft())
                return False
            if len(self._in_flight) < self._depth and self.scheduler.has_requests:
                return True
        if self._in_flight:
            self._end_oldest()
        return True

    def _gives_up(self) -> bool:
        """Whether nothing but empty steps can follow."""
        idle = self._empty_steps > self.document.get("max_idle", 6)
        return idle and not self._arrivals and not self._aborts

    def _end_oldest(self) -> None:
        oldest = self._in_flight.popleft()
        self.now = max(self.now, oldest.end_us)
        aborted = self._abort_due()
        if aborted:
            oldest.record["aborted_before_update"] = aborted
        self.clock.advance(self.now)
        self._finish(oldest)
        nothing_runs = not self._in_flight and not self.scheduler.running and not self._worker.busy
        if oldest.is_empty and self._arrivals and nothing_runs:
            self.now = max(self.now, self._arrivals[0][1]["t_us"])

    def _abort_due(self) -> list[str]:
        aborted = []
        while self._aborts and self._aborts[0]["t_us"] <= self.now:
            aborted.append(self._aborts.popleft()["id"])
            self.scheduler.finish_requests([aborted[-1]], RequestStatus.FINISHED_ABORTED)
        return aborted

    def _admit_due(self) -> None:
        stamped_on_arrival = self.document.get("admit", "arrival") == "arrival"
        while self._arrivals and self._arrivals[0][1]["t_us"] <= self.now:
            place, line = self._arrivals.popleft()
            self.clock.advance(line["t_us"] if stamped_on_arrival else self.now)
            self.scheduler.add_request(create_request(line, place, self._hasher))
        self.clock.advance(self.now)

    # ---- a step ---------------------------------------------------------------

    def _launch(self, aborted: list[str]) -> None:
        """Form a step and let the device run it."""
        number = len(self.steps)
        if isinstance(self.scheduler, DyntraLBPolicy) and number in self._plans:
            self.scheduler.prefetches = True
            self.scheduler.prepare()
            plan = self._plans[number]
            in_blocks = () if plan["freeze"] else tuple(plan["in_blk"])
            self.scheduler.plan = BalanceStep(tuple(plan["out_blk"]), in_blocks)
        step = self.scheduler.schedule(self.now)
        start = max(self.now, self._device_free)
        end = self._device_free = start + self._duration(step)
        record: Document = {"n": number, "t_us": self.now, "start_us": start, "end_us": end}
        record |= _decisions(self.scheduler, step)
        if aborted:
            record["aborted"] = aborted
        record |= self._recompute_record() | self._connector_record()
        self.steps.append(record)
        self._in_flight.append(StepInFlight(step, record, self._worker.begin_step()))
        self._empty_steps = 0 if step.total_num_scheduled_tokens else self._empty_steps + 1

    def _duration(self, step: SchedulerOutput) -> int:
        cost, tokens = self.document["step_us"], step.total_num_scheduled_tokens
        if tokens == 0:
            return int(cost.get("empty", 0))
        return int(cost["base"] + cost.get("per_token", 0) * tokens)

    def _recompute_record(self) -> Document:
        if not isinstance(self.scheduler, RecomputeScheduler):
            return {}
        record: Document = {}
        if self.scheduler.recomputed:
            record["recomputed"] = [request.request_id for request in self.scheduler.recomputed]
        if self.scheduler.offloaded:
            record["offloaded"] = [
                [entry.request_id, entry.num_computed_tokens, entry.num_blocks]
                for entry in self.scheduler.offloaded
            ]
        return record

    def _connector_record(self) -> Document:
        if isinstance(self.connector, CPUOffloadConnector):
            return {"cpu_free": self.connector.num_free_blocks}
        if self.connector is None or not self.connector.log:
            return {}
        log, self.connector.log = self.connector.log, []
        return {"connector": log}

    def _finish(self, run: StepInFlight) -> None:
        """Process a step: one token for every share that reaches the end of what is known."""
        sampled = {request_id: int(share.samples) for request_id, share in run.step.scheduled.items()}
        loaded = self._worker.end_step(run.transfers)
        output = ModelOutput(sampled, finished_recving=loaded)
        outputs = self.scheduler.update_from_output(run.step, output, self.now)
        run.record["outputs"] = [_shown_output(result) for result in outputs]
        run.record["free_after"] = self.scheduler.kv_cache_manager.block_pool.num_free_blocks
        if isinstance(self.scheduler, BatchJobAwareScheduler):
            run.record["job_stats"] = job_stats(self.scheduler.estimator)


def _decisions(scheduler: VllmScheduler, step: SchedulerOutput) -> Document:
    """What a formed step shows of the scheduler."""
    shares = step.scheduled.items()
    return {
        "sched": [[request_id, share.num_tokens] for request_id, share in shares],
        "new": [request_id for request_id, share in shares if share.kind == "new"],
        "resumed": sorted(request_id for request_id, share in shares if share.kind == "resumed"),
        "preempted": list(step.preempted_req_ids),
        "running": [request.request_id for request in scheduler.running],
        "waiting": _shown_waiting(scheduler),
        "skipped": [request.request_id for request in scheduler.skipped_waiting],
        "free": scheduler.kv_cache_manager.block_pool.num_free_blocks,
    }


def _shown_waiting(scheduler: VllmScheduler) -> Any:
    queue = scheduler.waiting
    if isinstance(queue, ShortRequestFirstRequestQueue):
        return {lane: [request.request_id for request in queue.lane(lane)] for lane in LANES}
    return [request.request_id for request in queue]


def _shown_output(output: RequestOutput) -> list[Any]:
    """[request, new token ids, finish reason, stop reason]."""
    request = output.request
    newest = request.num_output_tokens
    tokens = [output_token(number) for number in range(newest - output.num_new_tokens + 1, newest + 1)]
    if output.finished is RequestStatus.FINISHED_RECOMPUTED:
        return [request.request_id, [], "stop", "recomputed"]
    if output.finished is RequestStatus.FINISHED_STOPPED:
        return [request.request_id, [*tokens[:-1], STOP_TOKEN], "stop", STOP_TOKEN]
    reason = None if output.finished is None else FINISH_REASONS[output.finished]
    return [request.request_id, tokens, reason, None]


def replay_sched(document: Document) -> Document:
    """Kind ``sched``: every step of one scheduler."""
    return EngineReplay(document).run()


def replay_balance_sched(document: Document) -> Document:
    """Kind ``balance_sched``: several ranks in lock step, told of each other after every step."""
    config = document["config"]
    enabled = config.get("balance", True)
    kind = "balance" if enabled else "default"
    ranks = [
        create_engine({**config, "scheduler": kind}, lambda: 0.0).scheduler for _ in range(config["ranks"])
    ]
    hasher = PrefixHasher(ranks[0].config.block_sizes[1])
    snapshot = [0] * len(ranks)
    steps: list[list[Document]] = []
    for number in range(document["max_steps"]):
        for place, line in enumerate(document["requests"]):
            if line["at_step"] == number:
                ranks[line["rank"]].add_request(create_request({**line, "t_us": 0}, place, hasher))
        steps.append([_balance_step(rank, snapshot) for rank in ranks])
        snapshot = [len(rank.running) for rank in ranks]
        arrivals_left = any(line["at_step"] > number for line in document["requests"])
        if not arrivals_left and not any(rank.has_requests for rank in ranks):
            break
    return {"steps": steps}


def _balance_step(scheduler: VllmScheduler, snapshot: list[int]) -> Document:
    if not scheduler.has_requests:
        return {"dummy": True, "running": 0}
    if isinstance(scheduler, BalanceScheduler):
        scheduler.running_by_rank = snapshot
    step = scheduler.schedule(0)
    sampled = {request_id: int(share.samples) for request_id, share in step.scheduled.items()}
    scheduler.update_from_output(step, ModelOutput(sampled), 0)
    return {
        "sched": [[request_id, share.num_tokens] for request_id, share in step.scheduled.items()],
        "snapshot": snapshot,
        "running": len(scheduler.running),
        "waiting": [request.request_id for request in scheduler.waiting],
    }
