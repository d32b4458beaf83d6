"""Recordings of vllm-ascend's schedulers, run as programs: what is proven without a clock is what runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from serq.errors import RunError
from serq.ir import nodes
from serq.ir.serving import SchedulerOption, Vllm, Waiting, WaitingOption
from serq.runtime.records import Records
from serq.runtime.simulation import simulate
from tests.runtime.serving.build import branch, pause, program, request, vllm

Document = dict[str, Any]
RECORDINGS = Path(__file__).parents[2] / "oracle" / "ascend" / "recordings"
SCHEDULERS = sorted(
    path.stem
    for path in RECORDINGS.glob("sched_*.json")
    if path.stem.startswith(("sched_srf", "sched_bja")) and "remote" not in path.stem
)
QUEUES = {"srf": ("short_request_first", "srf"), "bja": ("batch_job_aware", "bja")}


def recording(name: str) -> Document:
    return json.loads((RECORDINGS / f"{name}.json").read_text())  # type: ignore[no-any-return]


def engine(document: Document) -> Vllm:
    """The stage of a recording; a unit of time is a microsecond, so 1 ms of waiting is 1,000,000 of them."""
    config, cost = document["config"], document["step_us"]
    kind, options = QUEUES.get(config["scheduler"], ("fcfs", ""))
    given = {
        name: value * (1e6 if name == "long_max_wait_ms" else 1)
        for name, value in config.get(options, {}).items()
    }
    return vllm(
        cost=f"{cost['base']} + {cost.get('per_token', 0)} * tokens",
        num_gpu_blocks=config["num_blocks"],
        max_num_seqs=config["max_num_seqs"],
        max_num_batched_tokens=config["max_num_batched_tokens"],
        max_model_len=config.get("max_model_len", 4096),
        scheduler_reserve_full_isl=config.get("reserve_full_isl", True),
        enable_prefix_caching=False,
        async_scheduling=config.get("async", False),
        waiting=Waiting(kind, options=tuple(WaitingOption(*item) for item in given.items())),  # type: ignore[arg-type]
    )


def sessions(document: Document, on: str = "engine") -> list[nodes.AnyStatement]:
    """One session a request, in the order of the recording."""
    jobs: dict[str, int] = {}
    aborts = {abort["id"]: abort["t_us"] for abort in document.get("aborts", ())}
    made: list[nodes.AnyStatement] = []
    for serial, line in enumerate(document["requests"]):
        clauses: Document = {}
        if "job_name" in line["id"]:
            clauses["job"] = jobs.setdefault(line["id"].split("]")[0], len(jobs))
        if line.get("finish") == "stop":
            clauses["max_tokens"] = line["decode"] + 100
        arrival = line.get("t_us", 0)
        if line["id"] in aborts:
            clauses["abort_after"] = aborts[line["id"]] - arrival
        sent = request(line["prompt"], line["decode"], on=on, **clauses)
        made.append(branch(f"serial == {serial}", pause(arrival), sent))
    return made


def ran(definition: nodes.Program) -> tuple[Records, str | None]:
    """What was recorded, and the message of the error that ended the run."""
    try:
        return simulate(definition, keep_rows=True), None
    except RunError as error:
        assert error.records is not None
        return error.records, error.message


def steps(records: Records, member: int = 0) -> list[tuple[float, float, list[int], int, int]]:
    """Start, end, tokens of every row, running, free blocks."""
    row = records.engines[member]
    table, rows = row.table, row.rows
    assert rows is not None
    return [
        (
            table.formed[i],
            table.end[i],
            [r.query for r in rows.batch(i).rows],
            table.running[i],
            table.free_blocks[i],
        )
        for i in range(len(table))
    ]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_program_makes_the_recorded_steps(name: str) -> None:
    document = recording(name)
    arrive = nodes.Batch(len(document["requests"]))
    records, died = ran(program(engine(document), sessions(document), arrive=arrive, horizon=1e9))
    expected = [
        (
            step["t_us"],
            step["end_us"],
            [tokens for _, tokens in step["sched"]],
            len(step["running"]),
            step["free"],
        )
        for step in document["expected"]["steps"]
        if step["sched"]
    ]
    made = steps(records)
    for place, (ours, recorded) in enumerate(zip(made, expected, strict=False)):
        assert ours == recorded, place
    exception = document["expected"].get("exception")
    assert (exception is None) == (died is None)
    if exception is not None:
        assert exception["type"] in (died or "") and exception["message"] in (died or "")
        expected = expected[: len(made)]
    assert len(made) == len(expected)


def test_ranks_of_a_program_make_the_recorded_steps_of_balance_scheduling() -> None:
    """Steps of one unit; a request of step n arrives at n. Dummy batches take part in every round (V-058)."""
    document = recording("balance_two_ranks")
    config = document["config"]
    ranks = vllm(
        cost="1",
        num_gpu_blocks=config["num_blocks"],
        max_num_seqs=config["max_num_seqs"],
        max_num_batched_tokens=config["max_num_batched_tokens"],
        max_model_len=4096,
        enable_prefix_caching=False,
        data_parallel_size=config["ranks"],
        scheduler="balance",
    )
    sent = [
        branch(
            f"serial == {serial}",
            pause(line["at_step"]),
            request(line["prompt"], line["decode"], on=f"engine[{line['rank']}]"),
        )
        for serial, line in enumerate(document["requests"])
    ]
    arrive = nodes.Batch(len(sent))
    records, _ = ran(program(ranks, sent, members=2, arrive=arrive, horizon=1000))
    for member in range(2):
        expected = [
            (number, number + 1, [tokens for _, tokens in row[member]["sched"]])
            for number, row in enumerate(document["expected"]["steps"])
            if row[member].get("sched")
        ]
        assert [step[:3] for step in steps(records, member)] == expected
    assert [row.dummy_steps for row in records.engines] == [32 - 6, 32 - 11]


def test_a_program_measures_its_own_profile() -> None:
    """The recorded profile is 3 + 0.01 l + 0.00001 l^2 ms, what this cost takes for a first chunk (V-061).

    So the chunks are the recorded ones (V-064), though these steps take longer than the recorded ones.
    """
    document = recording("sched_profiling_chunk_long_and_short")
    config = document["config"]
    chunked = vllm(
        cost="0.003 + 1e-5 * tokens + 2e-8 * attention",
        num_gpu_blocks=config["num_blocks"],
        max_num_seqs=config["max_num_seqs"],
        max_num_batched_tokens=config["max_num_batched_tokens"],
        max_model_len=config["max_model_len"],
        enable_prefix_caching=False,
        pipeline_parallel_size=2,
        scheduler="profiling_chunk",
        scheduler_options=(SchedulerOption("min_chunk", 128), SchedulerOption("need_timing", 0)),
    )
    records, _ = ran(program(chunked, sessions(document), arrive=nodes.Batch(2), horizon=1000))
    expected = [[tokens for _, tokens in step["sched"]] for step in document["expected"]["steps"]]
    assert [step[2] for step in steps(records)] == [step for step in expected if step]
    assert [warning.code for warning in records.warnings] == ["pipeline-timing"]
