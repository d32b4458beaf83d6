"""Lists of lengths, and the results of `vllm bench serve` read as the load that was sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import serq
from serq.errors import DataError
from serq.runtime.trace import Trace, open_trace, read_trace, write_trace


def read(tmp_path: Path, text: str) -> Trace:
    (tmp_path / "t").write_text(text, "utf-8")
    return read_trace(tmp_path / "t")


@pytest.mark.parametrize(
    "text",
    [
        "input_len,output_len\n10,3\n\n20,4\n",
        "output_len,input_len\r\n3,10\r\n4,20\r\n",
        '{"input_len": 10, "output_len": 3}\n{"output_len": 4, "input_len": 20}\n',
    ],
)
def test_rows_without_times(tmp_path: Path, text: str) -> None:
    trace = read(tmp_path, text)
    assert (trace.format, trace.times) == ("lengths", None)
    assert list(trace.new) == [10, 20] and list(trace.out) == [3, 4]
    assert list(trace.first_row) == [0, 1, 2]


@pytest.mark.parametrize(
    "text",
    [
        "time,input_len,output_len\n1e3,10,3\n1001.5,20,4\n",
        '{"time": 7, "input_len": 10, "output_len": 3}\n{"time": 8.5, "input_len": 20, "output_len": 4}',
    ],
)
def test_rows_with_times_count_from_the_first(tmp_path: Path, text: str) -> None:
    trace = read(tmp_path, text)
    assert trace.times is not None and list(trace.times) == [0.0, 1.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input_len,output_len\n1,2,3\n", r"t:2: expected 2 fields \(input_len,output_len\), got 3"),
        ("input_len,output_len\n1,2.5\n", "t:2: output_len '2.5' is not a whole number"),
        ("input_len,output_len\n-1,2\n3,x\n", "t:2: input_len '-1'.* more bad row: line 3"),
        ("time,input_len,output_len\nnan,1,2\n", "time 'nan' is not a number of seconds"),
        ('{"input_len": 1}', "t:1: .*output_len"),
        ('{"input_len": 1, "output_len": 2, "prompt": "x"}', "t:1: .*prompt"),
        ('{"input_len": 1, "output_len": "2"}', "`output_len`: expected `int`, got `str`"),
        ('{"input_len": 1, "output_len": 2}\n{"input_len": 1, "output_len": 2, "time": 3}', "t:2: `time`"),
        ("input_len,output_len\n", "an empty trace"),
    ],
)
def test_bad_rows(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text)


def test_a_header_that_misses_a_length_is_told_what_headers_there_are(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lengths \\(first line input_len,output_len\\)"):
        read(tmp_path, "input_len,outputs\n10,3\n")


RESULT = {
    "model_id": "m",
    "input_lens": [10, 20, 30],
    "output_lens": [3, 0, 5],
    "start_times": [100.5, 100.7, 101.0],
    "errors": ["", "refused", ""],
    "ttfts": [0.1, 0.0, 0.1],
}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_benchmark_result_is_the_load_that_was_sent(tmp_path: Path, indent: int | None) -> None:
    trace = read(tmp_path, json.dumps(RESULT, indent=indent))
    assert trace.format == "vllm-bench"
    assert list(trace.new) == [10, 30] and list(trace.out) == [3, 5]  # the failed one is left out
    assert trace.times is not None and list(trace.times) == [0.0, 0.5]


def test_a_result_without_start_times_is_lengths_alone(tmp_path: Path) -> None:
    older = {key: value for key, value in RESULT.items() if key not in ("start_times", "errors")}
    trace = read(tmp_path, json.dumps(older))
    assert trace.times is None and list(trace.out) == [3, 0, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_lens": None}, "`input_lens`"),
        ({"output_lens": [1, 2]}, "different lengths: input_lens 3, output_lens 2, start_times 3, errors 3"),
        ({"output_lens": [1, 2, -3]}, "output_lens"),
        ({"errors": ["x", "x", "x"]}, "no request that succeeded"),
    ],
)
def test_bad_results(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, json.dumps({**RESULT, **change}))


def test_a_result_that_is_not_detailed_and_several_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--save-detailed"):
        read(tmp_path, json.dumps({"model_id": "m", "total_input_tokens": 60}))
    with pytest.raises(DataError, match="--append-result"):
        read(tmp_path, json.dumps(RESULT) + "\n" + json.dumps(RESULT))


def test_long_files_are_read_in_parts(tmp_path: Path) -> None:
    rows = [(1 + i % 7, 1 + i % 5) for i in range(2000)]
    (tmp_path / "t").write_text("input_len,output_len\n" + "".join(f"{a},{b}\n" for a, b in rows), "utf-8")
    trace = open_trace(tmp_path / "t", rows_in_memory=100).loaded()
    assert list(zip(trace.new, trace.out, strict=True)) == rows


def test_they_are_written_as_session_csv(tmp_path: Path) -> None:
    trace = read(tmp_path, json.dumps(RESULT))
    assert list(write_trace(trace)) == [
        "session,turn,new,out,think,forced,time",
        "0,0,10,3,0,0,0",
        "1,0,30,5,0,0,0.5",
    ]
    with pytest.raises(DataError, match="not written as lengths"):
        write_trace(trace, "lengths")


def test_a_program_replays_a_result(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(RESULT), "utf-8")
    text = """workload { arrive trace; trace "result.json" ordered; }
    session { turn; observe at = now; observe new = new; observe out = out; } run { horizon 10; }"""
    (tmp_path / "p.sq").write_text(text, "utf-8")
    series = serq.run(tmp_path / "p.sq").records.series
    assert [series[name].values for name in ("at", "new", "out")] == [[0.0, 0.5], [10.0, 30.0], [3.0, 5.0]]
