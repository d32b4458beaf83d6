"""Writes down a replay in the format of the recorded traces (oracle README, "Trace")."""

from __future__ import annotations

import zlib
from typing import Any

from serq.oracle.scenario import Scenario
from serq.oracle.worker import Run
from serq.runtime.vllm.engine_core import EngineObserver
from serq.runtime.vllm.request import Request, RequestStatus, Time
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput

DIGEST_COLUMNS = ["t", "dt", "n", "tok", "npre", "running", "waiting", "free", "crc"]
_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
    RequestStatus.FINISHED_ERROR: "error",
    RequestStatus.FINISHED_REPETITION: "repetition",
}
_KINDS = {"new": "n", "resumed": "r", "running": "c"}

Json = dict[str, Any]


class TraceRecorder(EngineObserver):
    """Collects what happens, step by step and request by request."""

    def __init__(self, scenario: Scenario, scheduler: VllmScheduler) -> None:
        self._scenario = scenario
        self._scheduler = scheduler
        self._options = scenario.trace
        self._steps: list[Json] = []
        self._by_step: dict[int, Json] = {}
        self._resets: list[list[Any]] = []
        self._requests: dict[str, Json] = {
            line.id: {
                "id": line.id,
                "arrival": line.t,
                "first_sched": None,
                "tok": [],
                "finish": None,
                "reason": None,
                "preempt": 0,
                "cached": None,
                "ext": None,
            }
            for line in scenario.requests
        }

    @property
    def num_steps(self) -> int:
        """Steps so far."""
        return len(self._steps)

    @property
    def steps(self) -> list[Json]:
        """The steps so far, whatever the level of the trace."""
        return self._steps

    # ---- what happens ---------------------------------------------------------

    def launched(self, run: Run, now: int) -> None:
        """A step was formed at ``now``."""
        step = run.step
        self._note_requests(step, now)
        line = self._decisions(step, now)
        if self._options.blocks:
            manager = self._scheduler.kv_cache_manager
            line["blk"] = {request_id: manager.block_ids(request_id) for request_id in step.scheduled}
        if self._options.queues:
            line["rq"] = [request.request_id for request in self._scheduler.running]
            line["wq"] = [request.request_id for request in self._scheduler.waiting]
            line["sq"] = [request.request_id for request in self._scheduler.skipped_waiting]
        self._steps.append(line)
        self._by_step[id(step)] = line

    def _note_requests(self, step: SchedulerOutput, now: int) -> None:
        for request_id, share in step.scheduled.items():
            row = self._requests[request_id]
            if share.kind != "running" and row["first_sched"] is None:
                row["first_sched"] = now
        for request_id, (local, external) in step.hits.items():
            row = self._requests[request_id]
            if row["cached"] is None:
                row["cached"], row["ext"] = local, external
        for request_id in step.preempted_req_ids:
            self._requests[request_id]["preempt"] += 1

    def _decisions(self, step: SchedulerOutput, now: int) -> Json:
        scheduler = self._scheduler
        pool = scheduler.kv_cache_manager.block_pool
        line: Json = {
            "i": len(self._steps),
            "t": now,
            "s": [
                [request_id, s.num_tokens, _KINDS[s.kind], s.num_computed_tokens, s.num_spec_tokens]
                for request_id, s in step.scheduled.items()
            ],
            "tok": step.total_num_scheduled_tokens,
            "q": [len(scheduler.running), scheduler.num_waiting, len(scheduler.skipped_waiting)],
            "free": [step.num_free_blocks_before, pool.num_free_blocks, None],
        }
        optional = {
            "pre": step.preempted_req_ids,
            "fin": sorted(step.finished_req_ids),
            "hit": {request_id: list(hit) for request_id, hit in step.hits.items()},
            "cpb": step.num_common_prefix_blocks if any(step.num_common_prefix_blocks) else None,
            "cow": [list(pair) for pair in step.block_copies],
            "zero": step.new_block_ids_to_zero,
        }
        line.update({name: value for name, value in optional.items() if value})
        spec = self._scenario.spec
        if spec is not None and step.num_spec_tokens != spec.k:
            line["k"] = step.num_spec_tokens
        return line

    def finished(self, run: Run, output: ModelOutput, outputs: list[RequestOutput], now: int) -> None:
        """The output of a step was processed at ``now``."""
        line = self._by_step.pop(id(run.step))
        line["free"][2] = self._scheduler.kv_cache_manager.block_pool.num_free_blocks
        line["t0"], line["dt"], line["t1"] = run.start, run.cost, now
        if output.finished_recving:
            line["recv"] = list(output.finished_recving)
        if output.finished_sending:
            line["sent"] = list(output.finished_sending)
        done = []
        for result in outputs:
            request_id = result.request.request_id
            self._requests[request_id]["tok"] += [now] * result.num_new_tokens
            if result.finished is not None:
                self._end(request_id, result.finished, now)
                done.append(request_id)
        if done:
            line["done"] = done

    def aborted(self, request: Request, now: Time) -> None:
        """A client gave up."""
        self._end(request.request_id, RequestStatus.FINISHED_ABORTED, now)

    def reset(self, succeeded: bool, preempted: list[Request], now: Time) -> None:
        """The prefix cache was reset before the next step."""
        ids = [request.request_id for request in preempted]
        self._resets.append([len(self._steps), succeeded, ids])
        for request_id in ids:
            self._requests[request_id]["preempt"] += 1

    def _end(self, request_id: str, status: RequestStatus, now: Time) -> None:
        row = self._requests[request_id]
        if row["finish"] is None:
            row["finish"], row["reason"] = now, _REASONS[status]

    # ---- the trace --------------------------------------------------------------

    def result(self, end: int, stalled: bool) -> Json:
        """The whole trace, as JSON data."""
        config = self._scheduler.config
        trace: Json = {
            "end": end,
            "stalled": stalled,
            "n_steps": len(self._steps),
            "n_preempt": sum(row["preempt"] for row in self._requests.values()),
            "block_sizes": list(config.block_sizes),
            "watermark_blocks": config.watermark_blocks,
            "token_budget": config.token_budget,
            "lookahead": config.num_lookahead_tokens,
        }
        if self._resets:
            trace["resets"] = self._resets
        if self._options.level == "digest":
            trace["columns"] = DIGEST_COLUMNS
            trace["steps"] = [_digest_step(line) for line in self._steps]
            trace["requests"] = [_digest_request(row) for row in self._requests.values()]
        else:
            trace["steps"] = self._steps
            trace["requests"] = [_full_request(row) for row in self._requests.values()]
        return trace


def _full_request(row: Json) -> Json:
    return {**row, "first_tok": row["tok"][0] if row["tok"] else None}


def _digest_request(row: Json) -> Json:
    times = row["tok"]
    return {name: value for name, value in row.items() if name != "tok"} | {
        "n_out": len(times),
        "first_tok": times[0] if times else None,
        "last_tok": times[-1] if times else None,
        "crc": zlib.crc32(",".join(map(str, times)).encode()),
    }


def _digest_step(line: Json) -> list[int]:
    shares = ";".join(f"{r},{n},{kind},{computed},{drafts}" for r, n, kind, computed, drafts in line["s"])
    return [
        line["t"],
        line.get("dt", 0),
        len(line["s"]),
        line["tok"],
        len(line.get("pre", ())),
        line["q"][0],
        line["q"][1],
        line["free"][1],
        zlib.crc32(shares.encode()),
    ]
