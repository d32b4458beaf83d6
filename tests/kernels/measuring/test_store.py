"""Tables that are written while measuring: nothing is lost, nothing is measured twice, nothing is mixed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from serq.errors import DataError, RunError
from serq.kernels.measuring.bench import Timing
from serq.kernels.measuring.store import MeasuredTables, TableKind
from serq.kernels.tables.operator_table import OperatorTable
from serq.kernels.tables.sidecar import Provenance
from tests.shared import ROOT

HERE = Provenance("chip", "us", {"torch": "1"}, date="2026-01-01")
MLP = TableKind("mlp", ("tokens",), calls=4)


def opened(folder: Path, provenance: Provenance = HERE, **dimensions: int) -> MeasuredTables:
    return MeasuredTables(folder, provenance, {"model": "m", **dimensions})


def timing(seconds: float) -> Timing:
    return Timing(seconds, seconds / 2, seconds * 2)


def never() -> Timing:
    raise AssertionError("measured again")


def test_the_first_price_stays(tmp_path: Path) -> None:
    tables = opened(tmp_path)
    assert tables.price(MLP, ("8",), lambda: timing(0.1)) == 0.1
    assert tables.price(MLP, ("8",), never) == 0.1
    assert opened(tmp_path).price(MLP, ("8",), never) == 0.1
    assert (tmp_path / "mlp.csv").read_text() == "tokens,seconds,smallest,largest\n8,0.1,0.05,0.2\n"
    table = OperatorTable.read(tmp_path / "mlp.csv")
    assert table.sidecar.calls == 4 and table.sidecar.dimensions == {"model": "m"}


def test_another_day_goes_on_and_another_device_does_not(tmp_path: Path) -> None:
    opened(tmp_path).price(MLP, ("8",), lambda: timing(0.1))
    later = Provenance("chip", "us", {"torch": "1"}, date="2027-02-02")
    assert opened(tmp_path, later).price(MLP, ("8",), never) == 0.1
    other = Provenance("chip", "us", {"torch": "2"})
    with pytest.raises(RunError, match=r"provenance\.software\.torch 1 there, 2 here"):
        opened(tmp_path, other).price(MLP, ("8",), never)
    with pytest.raises(RunError, match=r"dimensions\.heads nothing there, 3 here"):
        opened(tmp_path, heads=3).price(MLP, ("8",), never)


def test_a_row_that_was_cut_short_is_measured_again(tmp_path: Path) -> None:
    opened(tmp_path).price(MLP, ("8",), lambda: timing(0.1))
    with open(tmp_path / "mlp.csv", "a", encoding="utf-8") as file:
        file.write("16,0.12")
    tables = opened(tmp_path)
    assert tables.known(MLP) == {("8",)}
    assert tables.price(MLP, ("16",), lambda: timing(0.3)) == 0.3
    assert opened(tmp_path).known(MLP) == {("8",), ("16",)}
    (tmp_path / "mlp.csv").write_text("tokens,seconds,smallest,largest\n8,fast,1,1\n")
    with pytest.raises(DataError, match="8,fast"):
        opened(tmp_path).known(MLP)


def test_what_another_wrote_meanwhile_is_read(tmp_path: Path) -> None:
    mine, other = opened(tmp_path), opened(tmp_path)
    assert mine.price(MLP, ("8",), lambda: timing(0.1)) == 0.1
    assert other.price(MLP, ("8",), never) == 0.1
    other.price(MLP, ("9",), lambda: timing(0.2))
    assert mine.price(MLP, ("9",), never) == 0.2


def test_a_killed_process_keeps_every_row(tmp_path: Path) -> None:
    """Killed in the middle of its tenth measurement: nine are there, and the tables can be read."""
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.kernels.measuring.test_store import MLP, opened, timing
tables = opened(Path({str(tmp_path)!r}))
def measured(n):
    if n == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return timing(0.5 + n)
for n in range(12):
    tables.price(MLP, (str(n),), lambda: measured(n))
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, env={**os.environ})
    assert ended.returncode == -signal.SIGKILL
    assert opened(tmp_path).known(MLP) == {(str(n),) for n in range(9)}
    assert OperatorTable.read(tmp_path / "mlp.csv").points.read([4.0], "error", "mlp").value == 4.5  # type: ignore[union-attr]


def test_metadata_are_those_of_the_project(tmp_path: Path) -> None:
    opened(tmp_path).price(TableKind("gdn", ("shape",), 2, context_step=64), ("d1@64",), lambda: timing(1.0))
    plain = json.loads((tmp_path / "gdn.json").read_text())
    assert (plain["axes"], plain["context_step"], plain["unit"]) == (["shape"], 64, "s")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file"):
        opened(tmp_path / "file" / "tables")
