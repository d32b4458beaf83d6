"""examples/vendors, serving: what the comments of the programs say is what happens."""

from __future__ import annotations

import pytest

import serq
from serq.results import Report
from tests.shared import ROOT

VENDORS = ROOT / "examples" / "vendors"


def run(name: str, **sets: float) -> Report:
    return serq.run(serq.compile(VENDORS / f"{name}.sq", sets=sets))


def values(report: Report, series: str) -> list[float]:
    return report.records.series[series].values


def test_ways_in_which_a_fetch_can_go() -> None:
    """In the order of arrival: arrived, failed and computed again, failed, late, late and given up."""
    report = run("connector")
    milliseconds = [50, 60, 40, 120, 40]
    assert values(report, "end_ms") == pytest.approx(milliseconds)
    assert values(report, "outputs") == [2, 2, 0, 2, 0]
    assert (values(report, "error"), values(report, "gave_up")) == ([1], [1])
    assert values(report, "held") == pytest.approx([64, 0])


def test_transfers_of_a_deployment_are_counted_once() -> None:
    """Whatever fails is computed again; the wire carries the bytes of all prompts, failed ones included."""
    report = run("disaggregated", failing=0.2)
    requests = report.requests
    decoded = requests[requests["stage"] == "decoder"]
    assert len(values(report, "transfer")) + len(values(report, "again")) == len(decoded) == 300
    assert 30 < len(values(report, "again")) < 90
    (wire,) = (row for row in report.records.stages if row.name == "wire")
    seconds = sum(decoded["fetched_tokens"]) * 65536 / 25e9
    span = report.records.end
    assert wire.utilization * span == pytest.approx(seconds)
    assert wire.completed == 300


def test_a_slow_wire_delays_tokens() -> None:
    fast, slow = (values(run("disaggregated", gigabytes=rate), "ttft") for rate in (25, 0.5))
    assert sum(slow) / 300 > sum(fast) / 300 + 0.15


def test_offload_refused() -> None:
    """The second request goes on at the idle spare engine, ahead of its lanes."""
    report = run("recompute")
    assert [values(report, name) for name in ("kept", "blocks", "target")] == [[17], [6], [1]]
    assert values(report, "first_ms") == pytest.approx([205])
    assert values(report, "end_ms") == pytest.approx([215, 225])
    assert values(report, "tokens") == [20, 20]
    assert [warning.code for warning in report.warnings] == ["beyond-upstream"]


def test_offload_accepted() -> None:
    report = run("recompute", offload_blocks=5)
    assert values(report, "kept") == []
    assert values(report, "preempted") == [0, 1]
    assert values(report, "end_ms") == pytest.approx([215, 250])


def test_retries_waste_what_the_engines_compute() -> None:
    """Who gives up after 6 s is served again from the start: the same load keeps the engines busier."""
    hasty, patient = run("gateway"), run("gateway", patience=60)
    for report in (hasty, patient):
        ends = [len(values(report, name)) for name in ("e2e", "turned_away", "given_up")]
        assert sum(ends) == report.records.arrivals == 600
    assert values(patient, "wasted") == values(patient, "given_up") == []
    assert len(values(hasty, "given_up")) > 0 and sum(values(hasty, "wasted")) > 5000
    assert max(values(hasty, "attempts")) <= 3
    assert sum(values(hasty, "wait")) > 100 * sum(values(patient, "wait"))


def test_a_full_queue_turns_away() -> None:
    """20 wait at most, and 24 connections are in use while somebody does."""
    report = run("gateway", rate=20)
    assert len(values(report, "turned_away")) > 50
    gauges = {row.name: row for row in report.records.gauges}
    assert gauges["at_gateway"].largest == 20
    assert gauges["at_engines"].largest <= 24 + 1


def test_stale_state_makes_waves() -> None:
    """The longer ago the engines were asked, the more the requests differ that they have."""
    spreads, missed = [], []
    for period in (0.01, 1, 5):
        report = run("stale_routing", period=period)
        spreads.append(report.records.gauges[0].mean)
        missed.append(sum(map(abs, values(report, "missed"))) / len(values(report, "missed")))
    assert spreads[0] < spreads[1] < spreads[2]
    assert missed[0] < 0.2 < missed[1] < missed[2]
