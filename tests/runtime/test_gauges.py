"""Gauges follow live state: the value after each instant, weighted by how long it held."""

from __future__ import annotations

import json

import msgspec
import pytest

from serq.ir import nodes
from serq.results import Report
from serq.runtime.simulation import simulate
from tests.runtime.serving.build import E, branch, pause, program, request, vllm

SESSION = [branch("serial == 1", pause(15)), request(20, 3)]


def rows(gauge: str, **options: float) -> tuple[float, float, float]:
    base = program(vllm(), SESSION, arrive=nodes.Batch(2), horizon=100, **options)
    report = Report(simulate(msgspec.structs.replace(base, gauges=(nodes.Gauge("g", E(gauge)),))))
    row = report.records.gauges[0]
    assert json.loads(report.to_json())["gauges"]["g"]["mean"] == pytest.approx(row.mean, rel=1e-12)
    assert list(report.gauges["name"]) == ["g"]
    assert "gauge" in repr(report)
    return row.mean, row.smallest, row.largest


def test_requests_present() -> None:
    """Session 0 is served from 0 to 30; session 1 sends at 15, is taken in at 20 and served until 50."""
    assert rows("queue(engine)") == ((30 + 35) / 100, 0, 2)
    assert rows("waiting(engine)") == (5 / 100, 0, 1)


def test_warm_up_is_left_out() -> None:
    assert rows("queue(engine)", warmup=40.0) == (10 / 60, 0, 1)
    assert rows("queue(engine)", warmup=50.0) == (0, 0, 0)


def test_only_the_value_after_an_instant_counts() -> None:
    """At 30 session 0 ends; nobody sees the two requests of that instant's beginning."""
    assert rows("running(engine)") == ((30 + 30) / 100, 0, 2)


def test_a_constant_is_itself() -> None:
    assert rows("7") == (7, 7, 7)
