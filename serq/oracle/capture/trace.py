"""The finished trace: what the recorder saw plus the totals, in full or as digests; and its file."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zlib import crc32

from serq.oracle.capture.recorder import Recorder
from serq.oracle.capture.scenario import Scenario

_DIGEST_COLUMNS = ["t", "dt", "n", "tok", "npre", "running", "waiting", "free", "crc"]


def assemble(
    scenario: Scenario, scheduler: Any, recorder: Recorder, *, end: int, stalled: bool, seconds: float
) -> dict[str, Any]:
    """The trace of a recording that ended at ``end`` and took ``seconds`` of wall time."""
    requests = [asdict(row) for row in recorder.requests.values()]
    trace: dict[str, Any] = {
        "end": end,
        "stalled": stalled,
        "n_steps": recorder.num_steps,
        "n_preempt": sum(request["preempt"] for request in requests),
        "block_sizes": [scheduler.block_size, scheduler.hash_block_size],
        "watermark_blocks": scheduler.kv_cache_manager.watermark_blocks,
        "token_budget": scheduler.max_num_scheduled_tokens,
        "lookahead": scheduler.num_lookahead_tokens,
    }
    if recorder.resets:
        trace["resets"] = recorder.resets
    if scenario.trace.level == "digest":
        trace["columns"] = _DIGEST_COLUMNS
        trace["steps"] = [_step_digest(step) for step in recorder.steps]
        trace["requests"] = [_request_digest(request) for request in requests]
    else:
        trace["steps"] = recorder.steps
        trace["requests"] = [{**request, "first_tok": _first(request["tok"])} for request in requests]
    trace["speed"] = {
        "schedule_s": round(recorder.schedule_seconds, 4),
        "update_s": round(recorder.update_seconds, 4),
        "total_s": round(seconds, 4),
    }
    return trace


def write(path: Path, scenario: dict[str, Any], trace: dict[str, Any]) -> None:
    """Write scenario and trace as one JSON file, compressed if its name ends in ``.gz``."""
    data = json.dumps({"scenario": scenario, "trace": trace}, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def _first(times: list[int]) -> int | None:
    return times[0] if times else None


def _step_digest(step: dict[str, Any]) -> list[int]:
    rows = ";".join(",".join(map(str, row)) for row in step["s"])
    return [
        step["t"],
        step.get("dt", 0),
        len(step["s"]),
        step["tok"],
        len(step.get("pre", ())),
        step["q"][0],
        step["q"][1],
        step["free"][1],
        crc32(rows.encode()),
    ]


def _request_digest(request: dict[str, Any]) -> dict[str, Any]:
    times = request["tok"]
    digest = {name: value for name, value in request.items() if name != "tok"}
    digest.update(
        n_out=len(times),
        first_tok=_first(times),
        last_tok=times[-1] if times else None,
        crc=crc32(",".join(map(str, times)).encode()),
    )
    return digest
