"""Tables of measurements: exact on the grid, linear between, explicit beyond, strict about their files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serq.errors import DataError, RunError
from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.executor import DecodeTotals, Evidence, OutsideRange
from serq.kernels.registry import BuiltExecutor, PricedStage, create_executor
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.kernels.tables.grid import Extrapolation, Grid
from serq.kernels.tables.operator_table import OperatorTable

ATTENTION = """decoders,mean_context_decode,time,std
1,1000,40,1
1,2000,60,1
9,1000,200,1
9,2000,380,1
"""
SIDECAR = """schema = 1
operator = "attention"
axes = ["decoders", "mean_context_decode"]
value = "time"
unit = "us"
calls = 10
when = "decoders"
notes = ["std"]
[provenance]
device = "chip"
measured_by = "us"
software = { cann = "9" }
"""
LINEAR = "tokens,ms\n1,2\n101,3\n"
LINEAR_SIDECAR = """{"schema": 1, "operator": "linear", "axes": ["tokens"], "value": "ms", "unit": "ms",
 "provenance": {"device": "chip", "measured_by": "us", "software": {}}}"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "attention.csv").write_text(ATTENTION)
    (tmp_path / "attention.toml").write_text(SIDECAR)
    (tmp_path / "linear.csv").write_text(LINEAR)
    (tmp_path / "linear.json").write_text(LINEAR_SIDECAR)
    return tmp_path


def built(folder: Path, **options: str) -> BuiltExecutor:
    given = {"tables": folder.name, **options}
    declared = Declared("e", "table", tuple(ExecutorOption(name, value) for name, value in given.items()))
    return create_executor(declared, PricedStage("gpu", folder=folder.parent))


def decodes(*contexts: int) -> StepBatch:
    return StepBatch.of(tuple(BatchRow(str(i), 1, c, 1, 0, True) for i, c in enumerate(contexts)))


def test_a_measured_point_is_its_value_times_the_calls(folder: Path) -> None:
    attention, linear = built(folder).executor.price(decodes(*[1000] * 9)).operators
    assert attention.seconds == pytest.approx(200e-6 * 10, rel=1e-15)
    assert (attention.operator, attention.evidence) == ("attention", Evidence.MEASURED)
    assert linear.seconds == pytest.approx(2.08e-3)  # 9 tokens: 8 of 100 on the way from 2 to 3 ms
    assert (linear.operator, linear.evidence) == ("linear", Evidence.INTERPOLATED)


def test_between_points_it_is_linear_along_both_axes(folder: Path) -> None:
    """Five decoders lie half way, 1250 a quarter: 45 and 245 us, in the middle of them 145."""
    attention, _ = built(folder).executor.price(decodes(*[1250] * 5)).operators
    assert attention.seconds == pytest.approx(145e-6 * 10)
    assert attention.evidence is Evidence.INTERPOLATED and not attention.outside


@pytest.mark.parametrize(("policy", "expected"), [("linear", 80e-6), ("nearest", 60e-6)])
def test_beyond_the_grid(folder: Path, policy: str, expected: float) -> None:
    attention, _ = built(folder, extrapolation=policy).executor.price(decodes(3000)).operators
    assert attention.seconds == pytest.approx(expected * 10)
    assert attention.evidence is Evidence.EXTRAPOLATED
    assert attention.outside == (OutsideRange("mean_context_decode", 3000.0, 1000.0, 2000.0),)


def test_extrapolation_never_goes_below_nothing(folder: Path) -> None:
    (folder / "linear.csv").write_text("tokens,ms\n100,1\n200,9\n")
    _, linear = built(folder).executor.price(decodes(1000)).operators
    assert linear.seconds == 0.0


def test_a_policy_that_stops(folder: Path) -> None:
    with pytest.raises(RunError) as caught:
        built(folder, extrapolation="error").executor.price(decodes(3000))
    message = "`attention` has no price at mean_context_decode 3000: measured from 1000 to 2000"
    assert (caught.value.message, caught.value.code) == (message, "not-measured")


def test_an_operator_that_the_step_lacks(folder: Path) -> None:
    batch = StepBatch.of((BatchRow("p", 50, 0, 50, 0, False),))
    assert [price.operator for price in built(folder).executor.price(batch).operators] == ["linear"]


def test_settings_name_the_policy_and_who_measured(folder: Path) -> None:
    assert [tuple(setting) for setting in built(folder).settings] == [
        ("extrapolation", "linear", "default"),
        ("attention", "attention.csv", "chip; cann 9; us"),
        ("linear", "linear.csv", "chip; us"),
    ]


POINTS = {(x, y): 3.0 + 2.0 * x + 5.0 * y + 0.5 * x * y for x in (1.0, 4.0, 10.0) for y in (0.0, 7.0)}


@settings(max_examples=50, deadline=None)
@given(st.floats(1, 10), st.floats(0, 7), st.sampled_from(["linear", "nearest", "error"]))
def test_a_bilinear_function_is_found_again(x: float, y: float, policy: Extrapolation) -> None:
    reading = Grid(("x", "y"), POINTS).read((x, y), policy, "op")
    assert reading.value == pytest.approx(3.0 + 2.0 * x + 5.0 * y + 0.5 * x * y)
    exact = (x, y) in POINTS
    assert reading.evidence is (Evidence.MEASURED if exact else Evidence.INTERPOLATED)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=12))
def test_decodes_need_no_rows(contexts: list[int]) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        path = Path(name) / "t"
        path.mkdir()
        (path / "attention.csv").write_text(ATTENTION)
        (path / "attention.toml").write_text(SIDECAR.replace("mean_", "largest_"))
        (path / "attention.csv").write_text(ATTENTION.replace("mean_", "largest_"))
        executor = built(path).executor
    totals = DecodeTotals(len(contexts), sum(contexts), min(contexts), max(contexts))
    assert executor.price_decodes(totals) == executor.price(decodes(*contexts))


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("attention.csv", "9,2000,380,1\n", "", "no full grid: there is none at decoders 9"),
        ("attention.csv", "9,2000,380,1", "9,1000,380,1", "attention.csv:5: this point was measured"),
        ("attention.csv", "60", "fast", "attention.csv:3: column `time`: `fast` is not a number"),
        ("attention.csv", "60", "0", "attention.csv:3: column `time`: 0 is no time"),
        ("attention.csv", "60", "inf", "attention.csv:3: column `time`: `inf` is not a finite number"),
        ("attention.csv", "1,2000,60,1", "1,2000,60", "attention.csv:3: 3 values for 4 columns"),
        ("attention.csv", "time", "tome", "attention.csv:1: no column `time`; there are decoders"),
        ("attention.toml", 'notes = ["std"]\n', "", "attention.csv:1: nothing reads column `std`"),
        ("attention.toml", '"decoders",', '"decodes",', "attention.toml:3: `decodes` is no quantity"),
        ("attention.toml", "schema = 1", "schema = 2", "attention.toml:1: Invalid enum value 2"),
        ("attention.toml", "calls = 10", "cells = 10", "attention.toml:6: Object contains unknown field"),
        ("attention.toml", "calls = 10", "calls = 0", "attention.toml:6: `calls` must be at least 1"),
        ("attention.toml", 'device = "chip"\n', "", "attention.toml: Object missing required field `device`"),
        ("attention.toml", 'unit = "us"', "unit = ", "attention.toml:5: "),
        ("linear.json", "{", "[", "linear.json: "),
        ("linear.json", '"linear"', '"attention"', "`attention` stands in another table, too"),
    ],
)
def test_broken_tables(folder: Path, file: str, before: str, after: str, message: str) -> None:
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after, 1))
    with pytest.raises(DataError) as caught:
        built(folder)
    assert message in str(caught.value)


def test_missing_tables(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(DataError, match="no such folder"):
        built(folder / "nothing")
    with pytest.raises(DataError, match="no CSV files in it"):
        built(tmp_path_factory.mktemp("empty"))
    (folder / "attention.toml").unlink()
    with pytest.raises(DataError, match=r"no metadata beside it: write attention\.toml or attention\.json"):
        OperatorTable.read(folder / "attention.csv")
