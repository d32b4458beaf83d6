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
from serq.runtime.serving.sent_request import SentRequest
from serq.runtime.simulation import simulate
from tests.runtime.serving.scenario_program import acceptance_scripts, in_order, obstacle, program, trace_of
from tests.runtime.serving.scripted_connector import script_connector

TRACES = Path(__file__).parents[2] / "oracle" / "vllm"


def scenarios() -> list[tuple[str, Scenario, dict[str, Any]]]:
    """The recorded scenarios that the language can say, stalled ones apart."""
    found = []
    for path in find_files([TRACES]):
        document, trace = read_oracle(path)
        scenario = parse_scenario(document, path.name)
        if obstacle(scenario) is None and not trace["stalled"] and not overlaps(scenario, trace):
            found.append((path.name.split(".")[0], scenario, trace))
    return found


def overlaps(scenario: Scenario, trace: dict[str, Any]) -> bool:
    """Whether some request was sent before the one that it continues had ended."""
    ends = {row["id"]: row["finish"] for row in trace["requests"]}
    return any(line.continues and not ends[line.continues.id] < line.t for line in scenario.requests)


SCENARIOS = scenarios()


class ScriptedDrafts:
    """Stands in for the draws of requests: step after step accepts what the script says."""

    def __init__(self, scenario: Scenario) -> None:
        self._scripts = acceptance_scripts(scenario)
        self._steps: dict[int, int] = {}

    def accepts(self, sent: SentRequest, draft: int) -> bool:
        if draft == 0:
            self._steps[sent.row] = self._steps.get(sent.row, -1) + 1
        script = self._scripts[sent.row]
        return draft < script[self._steps[sent.row] % len(script)]


def simulated(scenario: Scenario, trace: dict[str, Any], patch: pytest.MonkeyPatch) -> Records:
    drafts = ScriptedDrafts(scenario)

    def accepts(sent: SentRequest, draft: int, chance: float) -> bool:
        return drafts.accepts(sent, draft)

    patch.setattr(SentRequest, "accepts", accepts)
    script_connector(scenario, patch)
    return simulate(program(scenario, trace["end"] + 1_000.0), trace=trace_of(scenario))


def test_most_recorded_scenarios_can_be_said() -> None:
    assert len(SCENARIOS) >= 150


@pytest.mark.parametrize(("name", "scenario", "trace"), SCENARIOS, ids=[entry[0] for entry in SCENARIOS])
def test_recorded_steps_and_requests(
    name: str, scenario: Scenario, trace: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = simulated(scenario, trace, monkeypatch)
    first = min(line.t for line in scenario.requests)
    table = records.engines[0].table
    if scenario.trace.level == "digest":
        recorded = [(row[0] - first, row[3], row[2], row[5], row[6]) for row in trace["steps"] if row[3]]
        columns = (table.formed, table.tokens, table.scheduled, table.running, table.waiting)
        assert list(zip(*columns, strict=True)) == recorded
    else:
        recorded = [
            (*(s[t] - first for t in ("t", "t0", "t1")), s["tok"], len(s["s"]), *s["q"][:2], s["free"][1])
            for s in trace["steps"]
            if s["tok"]
        ]
        states = (table.running, table.waiting, table.free_blocks)
        whole = (table.formed, table.start, table.end, table.tokens, table.scheduled, *states)
        assert list(zip(*whole, strict=True)) == recorded
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
