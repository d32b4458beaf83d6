"""The report in its forms: frames, JSON, text, HTML."""

from __future__ import annotations

import json
import subprocess
import sys
from math import inf, nan

import pytest

from serq.errors import UsageError
from serq.results import Report
from serq.results.json_form import plain
from serq.runtime.records import Series
from serq.source import Diagnostic
from tests.results.example import example_records
from tests.shared import shared


@pytest.fixture
def report() -> Report:
    return Report(example_records())


def test_observe_is_a_frame_in_recording_order(report: Report) -> None:
    frame = report.observe("ttft")
    assert list(frame.columns) == ["time", "session", "turn", "value"]
    assert frame["value"].tolist() == [5.0, 9.0, 1.5]
    assert frame["time"].tolist() == [5.0, 9.0, 10.25]
    assert frame["session"].tolist() == [0, 1, 1]
    assert frame["turn"].dtype == "int64"


def test_an_observation_without_samples_is_an_empty_frame_of_the_same_types(report: Report) -> None:
    frame = report.observe("never")
    assert frame.empty
    assert list(map(str, frame.dtypes)) == ["float64", "int64", "int64", "float64"]


def test_a_fractional_turn_is_kept(report: Report) -> None:
    report.records.series["x"] = Series("x", [1.0], [0.0], [0], [0.5])
    assert report.observe("x")["turn"].tolist() == [0.5]


def test_unknown_observations_name_the_nearest(report: Report) -> None:
    with pytest.raises(UsageError, match=r"no observation `tfft`; did you mean `ttft`\?"):
        report.observe("tfft")
    with pytest.raises(UsageError, match="there are `ttft`, `never`"):
        report.observe("zzz")


def test_frames(report: Report) -> None:
    assert report.stages["name"].tolist() == ["gap", "gpu", "gpu"]
    assert report.stages["member"].tolist() == [0, 0, 1]
    assert report.stages["mean_service"].tolist()[1:] == [2.5, 4.0]
    assert report.pools.loc[0, "evicted_units"] == 4.0
    assert report.summary.loc["ttft", "count"] == 3
    assert report.summary.loc["ttft", "mean"] == pytest.approx(15.5 / 3)


def test_json(report: Report) -> None:
    assert report.to_json() == (
        '{"horizon":40,"end":40,"warmup":2.5,"seed":7,"events":9,"arrivals":2,"ended":1,"turns":3,'
        '"mean_live":0.35,"observes":{'
        '"ttft":{"count":3,"mean":5.166666666666667,"ci":null,"cv2":0.5275754422476586,"p99":9},'
        '"never":{"count":0,"mean":null,"ci":null,"cv2":null,"p99":null}},"stages":['
        '{"name":"gap","mean_number":0,"utilization":0,"completed":0,"throughput":0,"mean_wait":null,'
        '"mean_service":null,"iterations":0},'
        '{"name":"gpu","mean_number":0.25,"utilization":0.225,"completed":4,"throughput":0.1,"mean_wait":0,'
        '"mean_service":2.5,"iterations":9},'
        '{"name":"gpu","mean_number":0.125,"utilization":0.1,"completed":1,"throughput":0.025,"mean_wait":0,'
        '"mean_service":4,"iterations":4}],"pools":['
        '{"name":"kv","mean_used":1.8,"mean_cached":10.1,"mean_queue":0,"mean_holders":0.25,'
        '"mean_wait":null,"admissions":6,"evicted_entries":0,"evicted_units":4,"preemptions":4,"spills":0,'
        '"rejected":0,"stuck":1}]}'
    )


def test_json_has_the_shape_of_the_recorded_reports(report: Report) -> None:
    recorded = json.loads(shared("conformance", "B", "b062_step_preempt_lifo_blocks.json").read_text())[
        "report"
    ]
    mine = report.to_dict()
    assert mine.keys() == recorded.keys()
    assert mine["observes"]["ttft"].keys() == recorded["observes"]["comp"].keys()
    assert mine["stages"][0].keys() == recorded["stages"][0].keys()
    assert mine["pools"][0].keys() == recorded["pools"][0].keys()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((2.0, "2"), (-0.0, "0"), (7, "7"), (1e20, "100000000000000000000"), (1e300, "1e+300")),
        *((0.1, "0.1"), (1e-7, "1e-07"), (nan, "null"), (inf, "null"), (-inf, "null")),
    ],
)
def test_numbers_in_json(value: float, expected: str) -> None:
    assert json.dumps(plain(value)) == expected


def test_text(report: Report) -> None:
    assert repr(report).splitlines() == [
        "served    1 session, 0.02667/s; `ttft` mean 5.167, p50 5, p99 9",
        "warnings  1, stage `gpu`: a thing <to> look at [W999]",
        "",
        "run to 40 s of 40 s, warm-up 2.5 s, seed 7: 2 arrivals, 1 ended, 0.35 live on average, 9 events",
        "",
        "observation  count     mean  ± 95 %       cv2  p50  95 %  p99  95 %  smallest  largest",
        "ttft             3  5.16667       -  0.527575    5     -    9     -       1.5        9",
        "never            0        -       -         -    -     -    -     -         -        -",
        "",
        "stage   mean number  utilization  completed  throughput  mean wait  mean service  iterations",
        "gap               0            0          0           0          -             -           0",
        "gpu[0]         0.25        0.225          4         0.1          0           2.5           9",
        "gpu[1]        0.125          0.1          1       0.025          0             4           4",
        "",
        "pool  mean used  mean holders  mean queue  mean wait  admissions  mean cached  evicted units"
        "  preemptions  stuck",
        "kv          1.8          0.25           0          -           6         10.1              4"
        "            4      1",
        "",
        "note: pool `kv`: 1 session preempted again without progress",
        "stage `gpu`: warning[W999]: a thing <to> look at",
    ]


def test_notes_on_observations_that_were_always_zero(report: Report) -> None:
    report.records.series["quiet"] = Series("quiet", [0.0] * 40, [0.0] * 40, [0] * 40, [0.0] * 40)
    report.records.series["short"] = Series("short", [0.0] * 39, [0.0] * 39, [0] * 39, [0.0] * 39)
    notes = [line for line in repr(report).splitlines() if line.startswith("note: `")]
    assert notes == ["note: `quiet` was 0 in all 40 samples"]


def test_a_stopped_run_says_so_everywhere(report: Report) -> None:
    report.records.stopped = "session 3 loops"
    assert repr(report).startswith("answer    stopped at 40 s of 40 s: session 3 loops\nserved ")
    assert "\n\nstopped run to 40 s" in repr(report)
    assert repr(report).endswith("stopped: session 3 loops")
    assert report.to_dict()["stopped"] == "session 3 loops"
    assert "stopped: session 3 loops" in report._repr_html_()


def test_html_is_escaped_and_complete(report: Report) -> None:
    html = report._repr_html_()
    assert "a thing &lt;to&gt; look at" in html
    assert html.count("<table>") == 3
    assert "gpu[1]" in html


def test_text_and_json_need_neither_pandas_nor_numpy() -> None:
    code = (
        "import sys; from tests.results.example import example_records; from serq.results import Report\n"
        "r = Report(example_records()); repr(r); r.to_json(); r._repr_html_()\n"
        "assert not {'numpy', 'pandas', 'rich', 'matplotlib'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_warnings_of_compiling_come_first() -> None:
    early = Diagnostic("W001", "early", severity="warning")
    report = Report(example_records(), [early])
    assert [warning.code for warning in report.warnings] == ["W001", "W999"]
    assert repr(report).splitlines()[-2:] == ["warning[W001]: early", report.warnings[1].render()]


def test_smallest_records_make_a_report() -> None:
    records = example_records()
    for column in (records.series, records.stages, records.pools, records.warnings):
        column.clear()
    report = Report(records)
    assert repr(report).splitlines()[:3] == ["served    1 session, 0.02667/s", "warnings  none", ""]
    assert len(repr(report).splitlines()) == 4
    assert report.stages.empty and "name" in report.pools.columns and report.summary.empty
    with pytest.raises(UsageError, match="observes nothing"):
        report.observe("x")
