"""Expectations after a run: what holds, what is said of what does not."""

from __future__ import annotations

from math import inf, nan

import pytest

import serq
from serq.results.expectations import Outcome, same

# A server takes 2 a job: three jobs leave at 2, 4, 6. The delay stages are empty.
PROGRAM = """
stage desk : fifo;
stage room[2] : delay;
pool seats { cap 4; }
workload { arrive batch(3); }
session {
  hold seats (1) { run desk (2); }
  observe left = now;
  observe tenth = 0.1 * serial;
  branch (serial > 5) { observe never = 1; }
}
gauge inside = used(seats);
run { horizon 10; }
"""


TENTHS = "the samples are [0, 0.1, 0.2]"


def outcomes(*lines: str) -> list[Outcome]:
    report = serq.run(serq.compile(source=PROGRAM + "\n".join(lines)))
    return list(report.answers.expectations)


def holds(line: str) -> bool | None:
    (outcome,) = outcomes(line)
    return outcome.holds


@pytest.mark.parametrize(
    "line",
    [
        "expect order(left) == [2, 4, 6];",
        "expect values(tenth) == [0, 0.1, 0.2];",
        "expect values(tenth) == [0, 0.1 + 9e-11, 0.2];",
        "expect mean(left) == 4 && count(left) == 3 && smallest(left) == 2 && largest(left) == 6;",
        "expect p50(left) == 4 && p66(left) == 4 && p67(left) == 6 && p99(left) == 6 && p999(left) == 6;",
        "expect cv2(left) == 4 / 16;",
        "expect ci(left) == inf;",
        "expect completed(desk) == 3 && utilization(desk) == 0.6 && mean_service(desk) == 2;",
        "expect completed(room[1]) == 0 && completed(room[0]) == completed(room[1]);",
        "expect admissions(seats) == 3 && mean_used(seats) == 1.2;",
        "expect mean(inside) == 1.2 && smallest(inside) == 0 && largest(inside) == 3;",
        "expect ended == 3 && arrivals == 3 && events == 3 && end == 10 && turns == 0;",
        "expect mean(left) == 4 * (1 + 9e-10);",
        "expect mean(left) == 4.1 within 0.1000001;",
        "expect !(mean(left) != 4 * (1 + 9e-10));",
        "expect (sum j in 2 (completed(room[j]))) == 0;",
        "expect (max j in 2 (queue(j))) == 1;",
        "expect count(never) == 0 ? 1 : mean(never) > 0;",
        "expect count(never) == 0 || mean(never) > 0;",
        "expect -min(mean(left), 5) == 0 - 4;",
        "expect 1;",
    ],
)
def test_what_holds(line: str) -> None:
    if "queue(j)" in line:
        line = "def queue_of(j) = j;" + line.replace("queue(", "queue_of(")
    assert holds(line) is True


@pytest.mark.parametrize(
    ("line", "measured"),
    [
        ("expect order(left) == [2, 4, 5];", "sample 3 is 6, not 5; the samples are [2, 4, 6]"),
        ("expect order(tenth) == [0, 0.1, 0.3 - 0.1];", f"sample 3 is 0.2, not 0.2; {TENTHS}"),
        ("expect values(tenth) == [0, 0.1 + 2e-10, 0.2];", f"sample 2 is 0.1, not 0.1000000002; {TENTHS}"),
        ("expect values(left) == [2, 4];", "there are 3 samples, not 2; the samples are [2, 4, 6]"),
        ("expect order(never) == [1];", "there are 0 samples, not 1; the samples are []"),
        ("expect mean(left) < 4;", "mean(left) is 4"),
        ("expect mean(left) == 4.1 within 0.09;", "mean(left) is 4"),
        ("expect mean(left) == 4 + 1e-8;", "mean(left) is 4"),
        ("expect mean(never) == mean(never);", "mean(never) is nan"),
        ("expect mean(left) > 3 && ended == 2;", "mean(left) is 4, ended is 3"),
        ("expect mean(left) < 3 && ended == 2;", "mean(left) is 4"),
        ("expect completed(room[floor(mean(left))]) == 0;", "mean(left) is 4"),
        ("expect mean(left);", "mean(left) is 4, the condition is 4, neither 0 nor 1"),
        ("expect 0;", "it reads no figure"),
    ],
)
def test_what_does_not_hold_says_what_was_measured(line: str, measured: str) -> None:
    (outcome,) = outcomes(line)
    assert outcome.holds is False
    if "room" in line:
        measured = "there is no completed(room[4])"
    assert outcome.measured == measured


def test_a_message_shows_the_line() -> None:
    (outcome,) = outcomes("expect mean(left) < 4;")
    assert outcome.diagnostic("error").render() == (
        "<source>:14:1: error[expectation-failed]: this does not hold: mean(left) is 4\n"
        " 14 | expect mean(left) < 4;\n"
        "    | ^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_an_ir_file_has_no_lines_to_show() -> None:
    program = serq.Program.from_json(serq.compile(source=PROGRAM + "expect mean(left) < 4;").to_json())
    (outcome,) = serq.run(program).answers.expectations
    message = "expect mean(left) < 4: error[expectation-failed]: this does not hold: mean(left) is 4"
    assert outcome.diagnostic("error").render() == message


def test_reports_say_how_many_hold() -> None:
    program = serq.compile(source=PROGRAM + "expect ended == 3;\nexpect ended == 4;\n")
    report = serq.run(program)
    assert "\nexpect: 1 of 2 hold\n<source>:15:1: warning[expectation-failed]" in repr(report)
    assert "expect: 1 of 2 hold" in report._repr_html_()
    assert report.to_dict()["expectations"] == [
        {
            "expect": "expect ended == 3",
            "holds": True,
            "measured": "ended is 3",
            "file": "<source>",
            "line": 14,
            "column": 1,
        },
        {
            "expect": "expect ended == 4",
            "holds": False,
            "measured": "ended is 3",
            "file": "<source>",
            "line": 15,
            "column": 1,
        },
    ]
    assert "expectations" not in serq.run(serq.compile(source=PROGRAM)).to_dict()


def test_a_stopped_run_says_nothing() -> None:
    text = PROGRAM.replace("observe left = now;", "observe left = now; branch (2 * serial) { end; }")
    program = serq.compile(source=text + "expect ended == 3;")
    with pytest.raises(serq.RunError) as caught:
        serq.run(program)
    assert caught.value.records is not None
    report = program.report(caught.value.records)
    assert [outcome.holds for outcome in report.answers.expectations] == [None]
    assert "expect: not judged, because the run was stopped" in repr(report)


def test_same() -> None:
    assert same(1e12, 1e12 + 999) and not same(1e12, 1e12 + 1001)
    assert same(inf, inf) and not same(inf, -inf) and not same(inf, 1.0, 5.0) and not same(nan, nan)
    assert same(0.0, 0.0) and not same(0.0, 1e-300) and same(0.0, 1e-300, 1e-9)
    assert not same(1.0, 2.0, nan)


def test_every_figure_of_an_engine_can_be_expected() -> None:
    """Two requests of 16 + 2 tokens side by side, a second a step, in a run of ten seconds."""
    report = serq.run(
        serq.compile(
            source="""
    stage g : vllm { num_gpu_blocks 99; max_model_len 64; cost 1; async_scheduling false; }
    workload { arrive batch(2); }
    session { request r on g (16, 2); }
    expect requests(g) == 2;
    expect request_throughput(g) == 0.2;
    expect input_throughput(g) == 3.2;
    expect output_throughput(g) == 0.4;
    expect normalized_latency_mean(g) == 1;
    expect ttft_p90(g) == 1;
    expect e2e_p99(g) == 2;
    run { horizon 10; }
    """
        )
    )
    assert [outcome.holds for outcome in report.answers.expectations] == [True] * 7
