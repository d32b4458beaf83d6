"""What `run.json` keeps of a run beside its rows, without loss."""

from __future__ import annotations

from pathlib import Path

import serq
from tests.shared import ROOT


def test_what_the_blocks_of_a_hybrid_model_hold_and_where_prices_come_from(tmp_path: Path) -> None:
    """Its blocks hold states and KV; the folder says the same of them, and of its prices, as the run."""
    text = (ROOT / "examples" / "vendors" / "ascend950_qwen27b.sq").read_text("utf-8")
    text = text.replace("executor npu : roofline {", "executor npu : roofline { attention_table ascend950;")
    program = serq.compile(source=text, horizon=30)
    report = serq.run(program)
    serq.run(program, out=serq.open_run_folder(tmp_path / "run", program, "csv"))
    again = serq.read_run(tmp_path / "run")
    assert report.records.engines[0].memory is not None and report.records.prices[0].origins
    assert again.records.engines[0].memory == report.records.engines[0].memory
    assert again.records.prices == report.records.prices
    assert repr(again) == repr(report) and again.to_json() == report.to_json()
