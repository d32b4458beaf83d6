"""Every recorded trace is replayed to the last field, and the comparison notices every change."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from serq.errors import DataError
from serq.oracle.compare import first_difference
from serq.oracle.files import find_files, read_oracle
from serq.oracle.replay import replay
from serq.oracle.scenario import parse_scenario
from tests.shared import ROOT

TRACES = Path(__file__).parent / "vllm"
FILES = find_files([TRACES])


def replayed(name: str) -> dict[str, Any]:
    path = next(path for path in FILES if path.name.split(".")[0] == name)
    return replay(parse_scenario(read_oracle(path)[0], name))


def test_all_handed_traces_are_here() -> None:
    assert len(FILES) == 186


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_recorded_trace_is_replayed(path: Path) -> None:
    scenario, trace = read_oracle(path)
    difference = first_difference(trace, replay(parse_scenario(scenario, path.name)))
    assert difference is None, str(difference)


def test_same_scenario_same_bytes() -> None:
    one, other = replayed("r043_pressure_priority"), replayed("r043_pressure_priority")
    assert json.dumps(one) == json.dumps(other)


def every_change(data: Any) -> list[Any]:
    """``data`` with one leaf changed, for each of its leaves."""
    if not isinstance(data, dict | list) or not data:
        return [77 if data != 77 else 78]
    if isinstance(data, dict):
        return [{**data, key: new} for key, value in data.items() for new in every_change(value)]
    return [[*data[:i], new, *data[i + 1 :]] for i, value in enumerate(data) for new in every_change(value)]


def test_every_changed_leaf_is_a_difference() -> None:
    trace = replayed("h_kv_fail_recompute")
    changes = every_change(trace)
    assert len(changes) > 200
    assert all(first_difference(trace, changed) is not None for changed in changes)


def test_difference_names_step_field_and_values() -> None:
    trace = replayed("h_preempt_fcfs")
    changed = copy.deepcopy(trace)
    changed["steps"][4]["tok"] = 99
    changed["steps"][6]["tok"] = 98
    difference = first_difference(trace, changed)
    assert str(difference) == f"step 4: tok: expected {trace['steps'][4]['tok']}, got 99"


def test_speed_is_not_compared() -> None:
    trace = replayed("h_one_token")
    assert first_difference({**trace, "speed": {"total_s": 1}}, trace) is None


def test_missing_and_added_steps_are_differences() -> None:
    trace = replayed("h_one_token")
    shorter = {**trace, "steps": trace["steps"][:-1]}
    difference = first_difference(trace, shorter)
    assert difference is not None
    assert (difference.field, difference.expected, difference.got) == (
        "number of steps",
        len(trace["steps"]),
        len(trace["steps"]) - 1,
    )
    assert first_difference(shorter, trace) is not None


GOOD: dict[str, Any] = {
    "engine": {"max_num_batched_tokens": 64, "max_num_seqs": 4, "max_model_len": 64},
    "cost": {"base": 1},
    "requests": [{"id": "A", "t": 0, "prompt": 5, "max_tokens": 2}],
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"engine": {"max_num_batched_token": 64}}, "max_num_batched_token"),
        ({"engine": {"max_num_batched_tokens": 2, "max_num_seqs": 4}}, "max_num_seqs"),
        ({"engine": {"policy": "lifo"}}, "policy"),
        ({"engine": {"groups": [{"kind": "sliding"}]}}, "window"),
        ({"engine": {"groups": [{"kind": "mamba"}]}}, "mode"),
        ({"engine": {"retention_interval": 16}}, "retention_interval"),
        ({"engine": {"enable_chunked_prefill": False, "max_num_batched_tokens": 200}}, "chunked prefill"),
        ({"requests": [{"id": "A", "t": 0, "prompt": 0, "max_tokens": 2}]}, "prompt"),
        ({"requests": [{"id": "A", "t": 0, "prompt": "5", "max_tokens": 2}]}, "prompt"),
        ({"requests": [{"id": "A", "t": 0, "prompt": 65, "max_tokens": 2}]}, "max_model_len"),
        ({"requests": GOOD["requests"] * 2}, "same id"),
        ({"requests": [{**GOOD["requests"][0], "continues": {"id": "B", "len": 3}}]}, "'B'"),
        ({"events": [{"t": 1, "op": "abort", "id": "Z"}]}, "'Z'"),
        ({"spec": {"method": "ngram", "k": 0}}, "spec.k"),
        ({"requests": 5}, "requests"),
    ],
)
def test_broken_scenario_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint) as caught:
        parse_scenario({**GOOD, **change}, "here.json")
    assert str(caught.value).startswith("here.json: ")


def test_requests_that_continue_in_a_circle_are_refused() -> None:
    line = {"t": 0, "prompt": 5, "max_tokens": 2}
    requests = [{**line, "id": a, "continues": {"id": b, "len": 3}} for a, b in ("AB", "BA")]
    with pytest.raises(DataError, match="continues itself"):
        replay(parse_scenario({**GOOD, "requests": requests}, "here.json"))


def test_same_bytes_whatever_the_hash_seed() -> None:
    """No decision follows the order of a set."""
    program = (
        "import json, sys; from pathlib import Path\n"
        "from serq.oracle.files import read_scenario; from serq.oracle.replay import replay\n"
        "from serq.oracle.scenario import parse_scenario\n"
        "for name in sys.argv[1:]: print(json.dumps(replay(parse_scenario(read_scenario(Path(name)), name))))"
    )
    names = ("r043_pressure_priority", "r031_pressure_prefix_kv", "r057_pressure_prefix_hybrid")
    paths = [str(path) for path in FILES if path.name.startswith(names)]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
