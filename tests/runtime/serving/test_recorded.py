"""Programs that say what a recorded scenario says take the same steps at the same times as the real vLLM."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from serq.oracle.files import find_files, read_oracle
from serq.oracle.scenario import Scenario, parse_scenario
from serq.runtime.records import Records
from serq.runtime.request_records import FINISH_REASONS
from serq.runtime.simulation import simulate
from tests.runtime.serving.scenario_program import in_order, obstacle, program, trace_of

TRACES = Path(__file__).parents[2] / "oracle" / "vllm"


def scenarios() -> list[tuple[str, Scenario, dict[str, Any]]]:
    """The recorded scenarios that the language can say, stalled ones apart."""
    found = []
    for path in find_files([TRACES]):
        document, trace = read_oracle(path)
        scenario = parse_scenario(document, path.name)
        if obstacle(scenario) is None and not trace["stalled"]:
            found.append((path.name.split(".")[0], scenario, trace))
    return found


SCENARIOS = scenarios()


def simulated(scenario: Scenario, trace: dict[str, Any]) -> Records:
    return simulate(program(scenario, trace["end"] + 1_000.0), trace=trace_of(scenario))


def test_most_recorded_scenarios_can_be_said() -> None:
    assert len(SCENARIOS) >= 80


@pytest.mark.parametrize(("name", "scenario", "trace"), SCENARIOS, ids=[entry[0] for entry in SCENARIOS])
def test_recorded_steps_and_requests(name: str, scenario: Scenario, trace: dict[str, Any]) -> None:
    records = simulated(scenario, trace)
    first = min(line.t for line in scenario.requests)
    table = records.engines[0].table
    if scenario.trace.level == "digest":
        recorded = [(row[0] - first, row[3], row[2], row[5], row[6]) for row in trace["steps"] if row[3]]
        steps = list(zip(table.formed, table.tokens, table.scheduled, table.running, table.waiting, strict=True))
        assert steps == recorded
    else:
        recorded = [
            (s["t"] - first, s["t0"] - first, s["t1"] - first, s["tok"], len(s["s"]), *s["q"][:2], s["free"][1])
            for s in trace["steps"]
            if s["tok"]
        ]
        columns = (table.formed, table.start, table.end, table.tokens, table.scheduled, table.running,
                   table.waiting, table.free_blocks)  # fmt: skip
        assert list(zip(*columns, strict=True)) == recorded
    rows = {row["id"]: row for row in trace["requests"]}
    for place, line in enumerate(in_order(scenario)):
        assert _request_row(records, place) == _recorded_row(rows[line.id], first), line.id


def _request_row(records: Records, place: int) -> tuple[Any, ...]:
    table = records.requests
    times = (table.scheduled[place], table.first_token[place], table.finish[place])
    return (
        *(None if math.isnan(time) else time for time in times),
        FINISH_REASONS[table.finish_reason[place]] or None,
        table.preemptions[place],
        table.cached_tokens[place],
        table.generated[place],
    )


def _recorded_row(row: dict[str, Any], first: int) -> tuple[Any, ...]:
    times = (row["first_sched"], row["first_tok"], row["finish"])
    return (
        *(None if time is None else time - first for time in times),
        row["reason"],
        row["preempt"],
        row["cached"] or 0,
        row["n_out"] if "n_out" in row else len(row["tok"]),
    )
