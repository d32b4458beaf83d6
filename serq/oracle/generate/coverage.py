"""What a set of recorded traces exercises: how often each event occurs under each feature.

``python -m serq.oracle.generate.coverage FOLDER`` prints the table. A cell counts traces.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from serq.errors import DataError

Json = dict[str, Any]
Predicate = Callable[[Json, Json], bool]


def _engine(name: str, value: Any = True) -> Predicate:
    return lambda scenario, _: scenario["engine"].get(name) == value


def _setting(name: str) -> Predicate:
    return lambda scenario, _: name in scenario["engine"]


def _group(**wanted: Any) -> Predicate:
    return lambda scenario, _: any(wanted.items() <= group.items() for group in _groups(scenario))


def _groups(scenario: Json) -> list[Json]:
    groups: list[Json] = scenario["engine"].get("groups", [{"kind": "full"}])
    return groups


def _steps_with(name: str) -> Predicate:
    return lambda _, trace: any(name in step for step in trace["steps"])


def _reason(name: str) -> Predicate:
    return lambda _, trace: any(request["reason"] == name for request in trace["requests"])


def _row(test: Callable[[list[Any]], bool]) -> Predicate:
    return lambda _, trace: any(test(row) for step in trace["steps"] for row in step["s"])


def _hit(test: Callable[[int, int, int], bool]) -> Predicate:
    """A test of (local hit, external tokens, scheduler block size) over all admissions."""
    return lambda _, trace: any(
        test(local, external, trace["block_sizes"][0])
        for step in trace["steps"]
        for local, external in step.get("hit", {}).values()
    )


def _admitted_late_in_a_block(_: Json, trace: Json) -> bool:
    return any("cow" in step and "hit" in step for step in trace["steps"])


def _empty_step_with_work(_: Json, trace: Json) -> bool:
    return any(not step["s"] and sum(step["q"][:2]) for step in trace["steps"])


def _several_preempted(_: Json, trace: Json) -> bool:
    return any(len(step.get("pre", ())) > 1 for step in trace["steps"])


def _preempted_alone(_: Json, trace: Json) -> bool:
    """Everybody was preempted, the requester last: the pool cannot hold one request."""
    return any("pre" in step and not step["s"] for step in trace["steps"])


def _finishes_while_waiting(_: Json, trace: Json) -> bool:
    """A preempted request is ended by the output of a step that was in flight (S-104)."""
    steps = trace["steps"]
    return any(
        set(step.get("pre", ())) & set(earlier.get("done", ())) and earlier["t1"] >= step["t"]
        for earlier, step in pairwise(steps)
    )


def _reset(succeeded: bool) -> Predicate:
    return lambda _, trace: any(reset[1] is succeeded for reset in trace.get("resets", ()))


FEATURES: Mapping[str, Predicate] = {
    "all": lambda scenario, trace: True,
    "async": _engine("async_scheduling"),
    "v2 runner": _engine("v2_model_runner"),
    "priority": _engine("policy", "priority"),
    "spec": lambda scenario, _: "spec" in scenario,
    "async+spec": lambda scenario, _: "spec" in scenario and "async_scheduling" in scenario["engine"],
    "dynamic k": lambda scenario, _: "per_batch_size" in scenario.get("spec", ()),
    "no caching": _engine("enable_prefix_caching", False),
    "sliding": _group(kind="sliding"),
    "chunked local": _group(kind="chunked_local"),
    "mamba none": _group(kind="mamba", mode="none"),
    "mamba align": _group(kind="mamba", mode="align"),
    "mamba all": _group(kind="mamba", mode="all"),
    "eagle group": _group(eagle=True),
    "several groups": lambda scenario, _: len(_groups(scenario)) > 1,
    "match unit": _setting("prefix_match_unit"),
    "retention": _setting("retention_interval"),
    "connector": lambda scenario, _: "kv_connector" in scenario,
    "threshold": _setting("long_prefill_token_threshold"),
    "chunking off": _engine("enable_chunked_prefill", False),
    "watermark": _setting("watermark"),
    "no full ISL": _engine("reserve_full_isl", False),
    "cadence": _setting("prefill_schedule_interval"),
    "events": lambda scenario, _: "events" in scenario,
}

EVENTS: Mapping[str, Predicate] = {
    "(traces)": lambda scenario, trace: True,
    "preemption": _steps_with("pre"),
    "several in a step": _several_preempted,
    "nobody left": _preempted_alone,
    "finishes while waiting": _finishes_while_waiting,
    "resumed": _row(lambda row: row[2] == "r"),
    "resumed with hit": _row(lambda row: row[2] == "r" and row[3] > 0),
    "local hit": _hit(lambda local, external, block: local > 0),
    "hit inside a block": _hit(lambda local, external, block: local % block > 0),
    "external hit": _hit(lambda local, external, block: external > 0),
    "both hits": _hit(lambda local, external, block: local > 0 and external > 0),
    "copy on write": _steps_with("cow"),
    "copy at admission": _admitted_late_in_a_block,
    "common prefix": _steps_with("cpb"),
    "zeroing": _steps_with("zero"),
    "drafts verified": _row(lambda row: row[2] == "c" and row[4] > 0),
    "padded admission": _row(lambda row: row[2] != "c" and row[4] > 0),
    "drafts beside a replay": _row(lambda row: row[2] == "c" and 0 < row[4] != row[1] - 1),
    "fewer drafts asked": _steps_with("k"),
    "load ended": _steps_with("recv"),
    "send ended": _steps_with("sent"),
    "empty step with work": _empty_step_with_work,
    "stalled": lambda _, trace: bool(trace["stalled"]),
    "stop": _reason("stop"),
    "repetition": _reason("repetition"),
    "abort": _reason("abort"),
    "load error": _reason("error"),
    "reset succeeds": _reset(True),
    "reset refused": _reset(False),
}


def count(recordings: Iterable[Json]) -> Counter[tuple[str, str]]:
    """Traces per (event, feature)."""
    cells: Counter[tuple[str, str]] = Counter()
    for recording in recordings:
        scenario, trace = recording["scenario"], recording["trace"]
        features = [name for name, holds in FEATURES.items() if holds(scenario, trace)]
        events = [name for name, occurs in EVENTS.items() if occurs(scenario, trace)]
        cells.update((event, feature) for event in events for feature in features)
    return cells


def table(cells: Mapping[tuple[str, str], int]) -> str:
    """The counts as a Markdown table, features across."""
    lines = ["| | " + " | ".join(FEATURES) + " |", "|---" * (len(FEATURES) + 1) + "|"]
    for event in EVENTS:
        row = " | ".join(str(cells.get((event, feature), 0)) for feature in FEATURES)
        lines.append(f"| {event} | {row} |")
    return "\n".join(lines)


def _recordings(folder: Path) -> Iterator[Json]:
    """Traces in full; digests do not say what happened."""
    for path in sorted(folder.iterdir()):
        if not path.name.endswith((".json", ".json.gz")):
            continue
        data = path.read_bytes()
        try:
            recording = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        except ValueError as error:
            raise DataError(f"{path}: not JSON: {error}") from error
        if "columns" not in recording.get("trace", {"columns": None}):
            yield recording


if __name__ == "__main__":
    print(table(count(_recordings(Path(sys.argv[1])))))
