"""The figures that expectations know are the columns of the report, and hand-written IR obeys the rules."""

from __future__ import annotations

from dataclasses import fields

import msgspec
import pytest

import serq
from serq.ir.expectations import Expectation, ExpectedSamples, Objective
from serq.ir.expressions import Number, ReportRead, StageRef
from serq.ir.figures import FIELDS, GOODPUT, QUANTILES, REQUEST_LATENCIES
from serq.ir.nodes import Run
from serq.ir.validate import validate
from serq.results.metrics import REQUEST_METRICS
from serq.results.statistics import Summary
from serq.runtime.records import GaugeRow, PoolRow, Records, StageRow
from tests.grammar.texts import program


@pytest.mark.parametrize(
    ("row", "kind"), [("stage", StageRow), ("pool", PoolRow), ("gauge", GaugeRow), ("observation", Summary)]
)
def test_every_column_of_a_table_is_a_figure(row: str, kind: type) -> None:
    ends = ("_low", "_high")  # intervals of quantiles are shown, not expected
    columns = [f.name for f in fields(kind) if f.name not in ("name", "member") and not f.name.endswith(ends)]
    assert sorted({*columns, *(QUANTILES if kind is Summary else ())}) == sorted(FIELDS[row])  # type: ignore[index]


def test_the_figures_of_an_engine_are_the_columns_of_its_frame() -> None:
    """Without how its steps were computed: that depends on `--engine`, and no expectation may."""
    text = "stage g : vllm { num_gpu_blocks 9; max_model_len 64; cost 1; } run { horizon 1; }"
    frame = serq.run(serq.compile(source=text)).engines
    said = set(frame.columns) - {"name", "member", "planned_steps", "walked_steps"}
    assert sorted(said) == sorted(FIELDS["engine"])


def test_the_figures_of_a_run_are_its_records() -> None:
    assert set(FIELDS["run"]) - set(GOODPUT) <= {field.name for field in fields(Records)}
    assert tuple(REQUEST_METRICS) == REQUEST_LATENCIES


def test_quantiles_are_fractions() -> None:
    assert QUANTILES["p50"] == (50, 100) and QUANTILES["p999"] == (999, 1000)
    assert len(QUANTILES) == 51


BASE = program("stage s : delay; workload { arrive batch(1); } session { run s (1); observe x = now; }")


@pytest.mark.parametrize(
    ("node", "code"),
    [
        (Expectation(ReportRead("median", "observation", "x")), "E401"),
        (Expectation(ReportRead("mean", "observation", "y")), "E401"),
        (Expectation(ReportRead("completed", "stage", "t")), "E401"),
        (Expectation(ReportRead("ended", index=Number(1.0))), "E409"),
        (ExpectedSamples("y", (1.0,)), "E401"),
        (Objective("y", "observation", "mean", "<", 1.0), "E401"),
        (Objective("latency", "request", "mean", "<", 1.0), "E401"),
        (Objective("x", "observation", "p12", "<", 1.0), "E401"),
        (Objective("x", "observation", "mean", "<", float("nan")), "E446"),
    ],
)
def test_what_an_ir_file_may_not_ask(node: msgspec.Struct, code: str) -> None:
    field = "objectives" if isinstance(node, Objective) else "expectations"
    wrong = msgspec.structs.replace(BASE, **{field: (node,)})
    assert [problem.code for problem in validate(wrong)] == [code]


def test_a_figure_has_no_value_before_the_end() -> None:
    early = Run((StageRef("s"),), ReportRead("ended"), id=0)
    wrong = msgspec.structs.replace(BASE, session=(early, *BASE.session[1:]))
    assert [problem.code for problem in validate(wrong)] == ["E402"]
