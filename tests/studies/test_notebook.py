"""Studies in one call: what a notebook gets and sees."""

from __future__ import annotations

from pathlib import Path

import pytest

import serq
from serq.errors import UsageError
from tests.shared import ROOT

QUEUE = ROOT / "examples" / "tutorial" / "1_queue.sq"
SHORT = {"horizon": 200.0, "warmup": 20.0}

SCALED = """
let factor = 1;
let clients = 3;
stage away : delay;
workload { arrive batch(clients); }
session { run away (factor * ~exp(2)); observe response = now; }
run { horizon 1000; }
"""


def test_a_sweep_that_keeps_nothing() -> None:
    study = serq.sweep(QUEUE, {"rate": "2:3:0.5"}, replications=2, **SHORT)
    assert study.settings == ("rate",)
    assert list(study.frame()["rate"]) == [2.0, 2.5, 3.0]
    shown = study.show("response.mean")
    assert list(shown.columns) == ["rate", "observes.response.mean"] and "±" in shown.iloc[0, 1]
    assert "observes.response.mean" in repr(study) and "<table>" in study._repr_html_()
    drawn = study.plot("response.mean", limit=0.7)
    assert drawn.axes[0].get_xlabel() == "rate" and drawn._repr_png_().startswith(b"\x89PNG")


def test_values_as_people_give_them(tmp_path: Path) -> None:
    """A list or one value; what is fixed; a folder in which a study goes on."""
    given = {"axes": {"rate": [2, 2.5]}, "sets": {"service": 0.1}, "out": tmp_path / "study", **SHORT}
    study = serq.sweep(QUEUE, **given)
    assert list(study.frame()["rate"]) == [2.0, 2.5]
    assert serq.sweep(QUEUE, **given).points == study.points
    assert list(serq.sweep(QUEUE, {"rate": 3}, **SHORT).frame()["rate"]) == [3]
    with pytest.raises(UsageError, match="`rate`: the value 2 stands twice"):
        serq.sweep(QUEUE, {"rate": [2, 2]}, **SHORT)


def test_a_change_by_paired_seeds(tmp_path: Path) -> None:
    """Every response is three times as long with the same draws: +200 %, and nothing is left to luck."""
    program = tmp_path / "scaled.sq"
    program.write_text(SCALED, "utf-8")
    study = serq.sweep(program, {"factor": [0.5, 1.5], "clients": [3, 5]}, replications=4)
    change = study.change("response.mean", "factor", 0.5, 1.5)
    assert list(change["clients"]) == ["3", "5"] and list(change["pairs"]) == [4, 4]
    assert list(change["change"]) == pytest.approx([2.0, 2.0])
    assert list(change["change.ci95"]) == pytest.approx([0.0, 0.0], abs=1e-9)
    with pytest.raises(UsageError, match=r"`factor` is never 2 or never 1\.5: there is `0\.5`, `1\.5`"):
        study.change("response.mean", "factor", 2, 1.5)
    with pytest.raises(UsageError, match="no such setting"):
        study.change("response.mean", "speed", 1, 2)


def test_the_highest_load() -> None:
    """One server of rate 4: a mean response of at most 1 s allows 3 requests a second, M/M/1."""
    source = "slo response mean < 1;"
    assert source not in QUEUE.read_text("utf-8")
    found = serq.capacity(QUEUE, "rate", start=2, slos=["response p50 < 1"], replications=1, tolerance=0.1,
                          horizon=2000, warmup=100)  # fmt: skip
    load = found.load.mean
    # the median of M/M/1 is ln 2 / (4 - rate): 1 s at 3.31
    assert load == pytest.approx(3.31, rel=0.1)
    assert repr(found).startswith("highest `rate` that keeps every objective")
    assert "<pre>" in found._repr_html_()


def test_a_report_draws_itself() -> None:
    report = serq.run(serq.compile(QUEUE, horizon=50, warmup=0))
    assert report.plot()._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="no picture `latancy`; there are `latency`, `timeline`"):
        report.plot("latancy")
    with pytest.raises(UsageError, match="no step of a `vllm` stage"):
        report.plot("timeline")


def test_public_names_are_no_modules() -> None:
    """A name that is resolved on first use would be hidden by a module of its name."""
    modules = {path.stem for path in (ROOT / "serq").iterdir()}
    assert not modules & set(serq.__all__)
    assert all(getattr(serq, name) is not None for name in serq.__all__)


def test_a_comparison_in_one_call(tmp_path: Path) -> None:
    """Everything takes three times as long with the same draws: what is said is said of every seed."""
    program = tmp_path / "scaled.sq"
    program.write_text(SCALED, "utf-8")
    found = serq.compare(program, sets_b={"factor": 3}, sets={"clients": 4}, replications=2)
    row = next(row for row in found.differences if str(row.name.column) == "mean")
    a, b = row.means
    assert b == pytest.approx(3 * a)
    assert repr(found).startswith("B against A, 2 seeds") and "<pre>" in found._repr_html_()


def test_a_search_from_a_load_that_is_none() -> None:
    with pytest.raises(UsageError, match="starts at -1: a load is above 0"):
        serq.capacity(QUEUE, "rate", start=-1, slos="response p50 < 1")
