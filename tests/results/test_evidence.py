"""What costs rest on, in words: expressions, rooflines, tables; from hand-written rows of prices."""

from __future__ import annotations

import pytest

import serq
from serq.kernels.executor import Evidence, OperatorPrice, Price
from serq.kernels.registry import Origin, Setting
from serq.results.evidence import costs, costs_data, costs_text
from serq.runtime.pricing import PriceLedger, PriceRow
from tests.shared import ROOT

STAGES = """
stage a : step { cost 1; }
stage b : step { cost 2; }
stage c : step { cost 3; }
stage d : fifo;
workload { arrive batch(1); } session { run a prefill (1); } run { horizon 6; }
"""
MODEL = (Setting("model", "M, TP 2", "catalogue"), Setting("device", "D", "catalogue"))


def row(kind: str, *origins: Origin, settings: tuple[Setting, ...] = ()) -> PriceRow:
    """A step of 1 s that was measured and 3 s that are assumed."""
    ledger = PriceLedger()
    ledger.add(
        Price.of((OperatorPrice("x", 1.0, Evidence.MEASURED), OperatorPrice("y", 3.0, Evidence.ASSUMED)))
    )
    return PriceRow("c", "npu", kind, settings, ledger, origins)


SHARES = "25.0 % measured, 75.0 % assumed"


@pytest.mark.parametrize(
    ("priced", "words"),
    [
        (row("roofline", settings=MODEL), "roofline of M, TP 2, on D, not calibrated"),
        (
            row("roofline", Origin("fit.toml", "H100", "2026-03"), settings=MODEL),
            "roofline of M, TP 2, on D, calibrated by fit.toml (H100; 2026-03)",
        ),
        (
            row("table", *(Origin(f"{n}.csv", "910B", "2026-07") for n in "pqrs"), Origin("z.csv", "", "")),
            "tables p.csv, q.csv, r.csv and 1 more (910B; 2026-07), "
            "z.csv (device not stated; date not stated)",
        ),
        (row("measured", Origin("h100", "H100", "2026-01-02")), "tables h100 (H100; 2026-01-02)"),
        (
            row("torch", Origin("kept", "cpu", "")),
            "operators measured by `torch`: kept (cpu; date not stated)",
        ),
    ],
)
def test_kinds_of_executors(priced: PriceRow, words: str) -> None:
    ir = serq.compile(source=STAGES).ir
    assert costs(ir, [priced])[2] == ("c", f"{words}; {SHARES}")


def test_stages_with_the_same_costs_are_named_together() -> None:
    ir = serq.compile(source=STAGES).ir
    assert costs_text(ir, []) == "`a`, `b`, `c`: an expression of the program"
    priced = row("roofline", settings=MODEL)
    assert costs_text(ir, [priced]) == (
        f"`a`, `b`: an expression of the program; `c`: roofline of M, TP 2, on D, not calibrated; {SHARES}"
    )
    assert costs_data(ir, [priced])[2] == {
        "stage": "c",
        "basis": f"roofline of M, TP 2, on D, not calibrated; {SHARES}",
        "measurements": [],
        "evidence": {"measured": 0.25, "assumed": 0.75},
    }


def test_before_the_first_priced_step_there_are_no_shares() -> None:
    ir = serq.compile(source=STAGES).ir
    priced = PriceRow("c", "npu", "measured", (), PriceLedger(), (Origin("t", "H100", "2026"),))
    assert costs(ir, [priced])[2] == ("c", "tables t (H100; 2026)")


def test_a_run_that_was_killed_does_not_know_its_prices() -> None:
    ir = serq.compile(ROOT / "examples" / "vendors" / "ascend950_qwen27b.sq").ir
    assert costs(ir, []) == [("engine", "executor `npu`, on what evidence is not known")]


def test_tables_say_where_they_were_measured() -> None:
    """The files beside the example state device and date."""
    report = serq.run(ROOT / "examples" / "vendors" / "gdn_tables.sq")
    origins = {origin for price in report.records.prices for origin in price.origins}
    assert Origin("gdn_decode.csv", "Ascend 910B, which one is not said", "2026-07") in origins
    assert report.to_dict()["costs"][0]["measurements"][0]["date"] in ("2026", "2026-07")


def test_points_of_ascend_950_count_as_a_calibration() -> None:
    text = (ROOT / "examples" / "vendors" / "ascend950_qwen27b.sq").read_text("utf-8")
    executor = "executor npu : roofline {"
    assert text.count(executor) == 1
    text = text.replace(executor, executor + " attention_table ascend950;")
    report = serq.run(serq.compile(source=text, horizon=30))
    assert "calibrated by the points of ascend950.csv (Ascend 950, which one is not said; " in repr(report)
