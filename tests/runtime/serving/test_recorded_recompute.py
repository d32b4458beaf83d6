"""Recordings of vllm-ascend's recompute scheduler as programs: the same steps at the same microseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from serq.runtime.records import Records
from serq.runtime.request_records import FINISH_REASONS
from tests.runtime.programs import records

RECORDINGS = Path(__file__).parents[2] / "oracle" / "ascend" / "recordings"
OFFLOAD_BLOCKS = {"hook_absent": 0, "hook_refuse": 0, "hook_accept": 1000, "cpu_offload_real_connector": 39}
"""Recording -> room for offloads; a host memory of 40 blocks uses 39 (V-045)."""


def recording(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RECORDINGS / f"sched_recompute_{name}.json").read_text("utf-8"))
    return document


def decoder(config: dict[str, Any]) -> str:
    """The engine of a recording; a step takes a millisecond."""
    return f"""
        block_size {config["block_size"]}; num_gpu_blocks {config["num_blocks"]}; cost 1000;
        max_num_seqs {config["max_num_seqs"]}; max_num_batched_tokens {config["max_num_batched_tokens"]};
        max_model_len {config["max_model_len"]}; async_scheduling false; enable_prefix_caching false;
        kv_connector link; kv_role kv_consumer; scheduler recompute;"""


def steps(found: Records, engine: int, begin: float) -> list[tuple[float, ...]]:
    """(formed, end, tokens, rows, running, waiting, free blocks) of every step with tokens."""
    table = found.engines[engine].table
    columns = (table.tokens, table.scheduled, table.running, table.waiting, table.free_blocks)
    times = ([time - begin for time in column] for column in (table.formed, table.end))
    return list(zip(*times, *columns, strict=True))


def recorded_steps(document: dict[str, Any]) -> list[tuple[float, ...]]:
    return [
        (
            *(step["t_us"], step["end_us"], sum(tokens for _, tokens in step["sched"]), len(step["sched"])),
            *(len(step["running"]), len(step["waiting"]) + len(step["skipped"]), step["free"]),
        )
        for step in document["expected"]["steps"]
        if step["sched"]
    ]


def recorded_ends(document: dict[str, Any]) -> list[tuple[str, float, int]]:
    """(how it ended, when, with how many outputs) of every request."""
    ends, outputs = {}, dict.fromkeys((line["id"] for line in document["requests"]), 0)
    for step in document["expected"]["steps"]:
        for request_id, tokens, finish, stop in step["outputs"]:
            outputs[request_id] += len(tokens)
            if finish is not None:
                ends[request_id] = ("recomputed" if stop == "recomputed" else finish, step["end_us"])
    return [(*ends[name], count) for name, count in outputs.items()]


def ends_of(found: Records, engine: int, begin: float) -> list[tuple[str, float, int]]:
    table = found.requests
    return [
        (FINISH_REASONS[table.finish_reason[place]], table.finish[place] - begin, table.generated[place])
        for place, number in enumerate(table.engine)
        if number == engine
    ]


@pytest.mark.parametrize("name", OFFLOAD_BLOCKS)
def test_a_shortage_of_blocks(name: str) -> None:
    """A transfer ends with the step that orders it, as in the recordings: it takes no time of its own."""
    document = recording(name)
    prompt, decode = document["requests"][0]["prompt"], document["requests"][0]["decode"]
    assert all(line["prompt"] == prompt and line["decode"] == decode for line in document["requests"])
    found = records(f"""
        stage wire : delay;
        connector link : transfer {{ over wire; work 0; offload_blocks {OFFLOAD_BLOCKS[name]}; }}
        stage two : vllm {{ {decoder(document["config"])} }}
        workload {{ arrive batch({len(document["requests"])}); }}
        session {{ request d on two ({prompt}, {decode}); }}
        run {{ horizon 1e6; }}""")
    assert steps(found, 0, 0) == recorded_steps(document)
    assert ends_of(found, 0, 0) == recorded_ends(document)


def test_prompts_that_were_computed_elsewhere() -> None:
    """Four prompts reach the decoder at 1000; the KV of two is fetched, in 1.5 and in half a step."""
    document = recording("remote_prefill")
    assert [line["done_after_steps"] for line in document["config"]["kv"]["remote"].values()] == [2, 1]
    found = records(f"""
        stage wire : delay;
        connector link : transfer {{ over wire; work queue(wire) > 0 ? 500 : 1500; }}
        stage one : vllm {{ num_gpu_blocks 100; max_model_len 100; cost 1000; async_scheduling false;
                            kv_connector link; kv_role kv_producer; }}
        stage two : vllm {{ {decoder(document["config"])} }}
        workload {{ arrive batch(4); }}
        session {{
            request p on one (30, 1);
            branch (serial < 2) {{ request d on two (30, 20) from p via link; }}
            else {{ request d on two (30, 20); }}
        }}
        run {{ horizon 1e6; }}""")
    assert steps(found, 1, 1000) == recorded_steps(document)
    assert ends_of(found, 1, 1000) == recorded_ends(document)
