"""A run as a Chrome trace: requests, steps and counters over time, for ui.perfetto.dev and chrome://tracing.

The format is the JSON array of the Trace Event Format: one process an engine, its steps as complete events
(`X`) on one track, counters (`C`) for who runs and waits and how many blocks are free, and every request as
nested asynchronous events (`b`, `e`): queued, prefill, decode. Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

from serq.errors import DataError, UsageError
from serq.results.tables import member_namer
from serq.runtime.records import Records
from serq.runtime.request_records import FINISH_REASONS, EngineRow, RequestTable

Event = dict[str, Any]

_MICRO = 1e6


def trace_events(records: Records) -> Iterator[Event]:
    """The events of a run, engine by engine, then request by request. Raises UsageError without engines."""
    if not records.engines:
        raise UsageError("the program has no `vllm` stage, so there is no timeline to write")
    for process, engine in enumerate(records.engines, 1):
        yield _named("process_name", process, member_namer(records.engines)(engine))
        yield _named("thread_name", process, "steps")
        yield from _steps(engine, process)
    for place in range(len(records.requests)):
        yield from _request(records.requests, place, records.end)


def _named(kind: str, process: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": 0, "args": {"name": name}}


def _steps(engine: EngineRow, process: int) -> Iterator[Event]:
    table = engine.table
    for place in range(len(table)):
        start = table.start[place]
        tokens, prefill = table.tokens[place], table.prefill_tokens[place]
        kind = "decode" if not prefill else "prefill" if prefill == tokens else "mixed"
        yield {
            "ph": "X",
            "name": kind,
            "cat": "step",
            "pid": process,
            "tid": 0,
            "ts": start * _MICRO,
            "dur": (table.end[place] - start) * _MICRO,
            "args": {
                "step": place,
                "tokens": tokens,
                "prefill_tokens": prefill,
                "requests": table.scheduled[place],
                "preempted": table.preempted[place],
            },
        }
        formed = table.formed[place] * _MICRO
        requests = {"running": table.running[place], "waiting": table.waiting[place]}
        yield {"ph": "C", "name": "requests", "pid": process, "ts": formed, "args": requests}
        free = {"free blocks": table.free_blocks[place]}
        yield {"ph": "C", "name": "kv cache", "pid": process, "ts": formed, "args": free}


def _request(table: RequestTable, place: int, end: float) -> Iterator[Event]:
    """A request with its phases; what has not happened by the end of the run ends there."""
    finish = _or(table.finish[place], end)
    first = min(_or(table.first_token[place], finish), finish)
    scheduled = min(_or(table.scheduled[place], first), first)
    name = f"{table.handle[place]}, session {table.session[place]}"
    args = {
        "prompt_tokens": table.prompt_tokens[place],
        "cached_tokens": table.cached_tokens[place],
        "generated": table.generated[place],
        "preemptions": table.preemptions[place],
        "finish_reason": FINISH_REASONS[table.finish_reason[place]] or "unfinished",
    }
    phases: tuple[tuple[str, float, float, Event], ...] = (
        (name, table.sent[place], finish, args),
        ("queued", table.sent[place], scheduled, {}),
        ("prefill", scheduled, first, {}),
        ("decode", first, finish, {}),
    )
    common = {"cat": "request", "id": place, "pid": table.engine[place] + 1, "tid": 1}
    for title, begin, stop, details in phases:
        if stop > begin or details:
            yield {"ph": "b", "name": title, "ts": begin * _MICRO, "args": details, **common}
            yield {"ph": "e", "name": title, "ts": stop * _MICRO, **common}


def _or(time: float, other: float) -> float:
    return other if isnan(time) else time


def write_chrome_trace(records: Records, path: str | Path) -> Path:
    """Write the trace, event by event. Raises UsageError without engines, DataError where it cannot."""
    path = Path(path)
    events = trace_events(records)
    first = next(events)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
            file.write(json.dumps(first, separators=(",", ":")))
            for event in events:
                file.write(",\n" + json.dumps(event, separators=(",", ":")))
            file.write("\n]}\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None
    return path
