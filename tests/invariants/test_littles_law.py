"""Little's law holds to the last digit in a run that starts and ends empty: area = sum of sojourns."""

from __future__ import annotations

import pytest

import serq

DRAINED = """
stage desk : fifo(2);
stage shared : ps(3);
stage gpu : step { budget 4; cost 0.5 + tokens / 8; }
pool seats { cap 3; }
workload { arrive renewal(~uniform(0.1, 1.5)); }
session {
  set came = now;
  run desk (~exp(1)); observe at_desk = now - came;
  set shared_since = now; run shared (~exp(2)); observe at_shared = now - shared_since;
  set queued_since = now;
  hold seats (1) {
    observe waiting = now - queued_since; set seated = now;
    run gpu decode (3); observe at_gpu = now - seated;
  }
  observe seated_for = now - seated;
  observe response = now - came;
}
run { horizon 100000; arrivals 200; }
"""


@pytest.fixture(scope="module")
def report() -> serq.Report:
    return serq.run(serq.compile(source=DRAINED))


def area(report: serq.Report, name: str) -> float:
    """Sum of an observation over all sessions, divided by the length of the run."""
    return sum(report.records.series[name].values) / report.records.end


def test_everybody_came_and_went(report: serq.Report) -> None:
    assert report.records.arrivals == report.records.ended == 200
    assert all(len(series.values) == 200 for series in report.records.series.values())


@pytest.mark.parametrize(("stage", "name"), [("desk", "at_desk"), ("shared", "at_shared"), ("gpu", "at_gpu")])
def test_mean_number_at_a_stage(report: serq.Report, stage: str, name: str) -> None:
    row = next(row for row in report.records.stages if row.name == stage)
    assert row.mean_number == pytest.approx(area(report, name), rel=1e-9)
    assert row.completed == 200


def test_mean_live_sessions(report: serq.Report) -> None:
    assert report.records.mean_live == pytest.approx(area(report, "response"), rel=1e-9)


def test_a_pool_waits_and_holds_by_the_same_law(report: serq.Report) -> None:
    (row,) = report.records.pools
    assert row.mean_queue == pytest.approx(area(report, "waiting"), rel=1e-9)
    assert row.mean_used == pytest.approx(area(report, "seated_for"), rel=1e-9)
    assert row.mean_holders == pytest.approx(area(report, "seated_for"), rel=1e-9)
    assert row.mean_wait == pytest.approx(sum(report.records.series["waiting"].values) / 200, rel=1e-9)
