"""Files of measured runs: what is read, and what is said about those that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from serq.errors import DataError
from serq.validation.measured_run import MeasuredRequest
from serq.validation.reading import read_run
from tests.validation.runs import META, request, write_run

BENCH: dict[str, Any] = {
    "model_id": "Qwen/Qwen3-8B",
    "input_lens": [10, 20, 30],
    "output_lens": [3, 1, 2],
    "ttfts": [0.5, 0.25, 1.0],
    "itls": [[0.1, 0.2], [], [0.5]],
    "start_times": [100.0, 101.0, 102.0],
    "errors": ["", "", ""],
}


def fault(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_run(path)
    return str(caught.value).replace(f"{path}/", "").replace(str(path), "PATH")


def test_a_run_recorded_in_the_engine(tmp_path: Path) -> None:
    # The clocks differ by 990 s, as the second request shows, which was taken in at once.
    run = read_run(
        write_run(
            tmp_path,
            [
                request(10, 3, arrival=0, queued=10.5, first=11, last=12),
                request(20, 1, arrival=2, queued=12, first=13, last=13),
            ],
        )
    )
    assert run.requests == (MeasuredRequest(10, 3, 0, 0.5, 1, 2), MeasuredRequest(20, 1, 2, 2, 3, 3))
    assert not run.from_client and run.text("engine_version") == "0.19.0" and run.text("dtype") == ""
    assert run.stated["max_num_seqs"].value == 8
    assert run.stated["max_num_seqs"].source == "meta.json, engine_kwargs.max_num_seqs"


def test_what_the_engine_resolved_comes_before_what_it_was_told(tmp_path: Path) -> None:
    meta = META | {"resolved_config": {"scheduler_config": {"max_num_seqs": 7, "async_scheduling": False}}}
    run = read_run(write_run(tmp_path, [request()], meta))
    assert run.stated["max_num_seqs"].value == 7 and run.stated["async_scheduling"].value is False


def test_links_and_memory_of_a_cluster_file(tmp_path: Path) -> None:
    node = {"instances": [{"npu_mem": {"mem_size": 24, "mem_util": 0.5}}]}
    run = read_run(write_run(tmp_path, [request()], link_bw=16, link_latency=20000, nodes=[node]))
    assert run.stated["link_bandwidth"].value == 16e9
    assert run.stated["link_latency"].value == pytest.approx(20e-6)
    assert run.stated["kv_and_weight_bytes"].value == 12 * 2**30
    odd = read_run(write_run(tmp_path, [request()], link_bw="fast", nodes=[]))
    assert not {"link_bandwidth", "kv_and_weight_bytes"} & odd.stated.keys()


def test_a_run_may_lie_in_the_folder_or_below_it(tmp_path: Path) -> None:
    write_run(tmp_path / "run", [request()])
    for path in (tmp_path, tmp_path / "run", tmp_path / "run" / "requests.jsonl"):
        assert len(read_run(path).requests) == 1


def test_a_logged_rate(tmp_path: Path) -> None:
    write_run(tmp_path, [request()])
    (tmp_path / "timeseries.csv").write_text("t,prompt_throughput,gen_throughput\n1.0,5,2.5\n2.0,0,4\n")
    assert read_run(tmp_path).rates == ((1.0, 2.5), (2.0, 4.0))
    (tmp_path / "timeseries.csv").write_text("t,gen_throughput\n1.0,x\n")
    assert fault(tmp_path) == "timeseries.csv:2: `t` and `gen_throughput` must be numbers"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input_toks": 0}, "requests.jsonl:2: `input_toks` is 0, not a whole number above 0"),
        ({"output_toks": 2.5}, "requests.jsonl:2: `output_toks` is 2.5, not a whole number above 0"),
        ({"queued_ts": None}, "requests.jsonl:2: `queued_ts` is None, not a finite number"),
        ({"first_token_ts": float("nan")}, "requests.jsonl:2: `first_token_ts` is nan, not a finite number"),
        (
            {"last_token_ts": 0.5},
            "requests.jsonl:2: queued_ts 0.0, first_token_ts 1.0, last_token_ts 0.5 run back",
        ),
    ],
)
def test_a_bad_row(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    assert fault(write_run(tmp_path, [request(), request() | change])) == said


def test_rows_that_are_no_rows(tmp_path: Path) -> None:
    write_run(tmp_path, [request()])
    rows = tmp_path / "requests.jsonl"
    rows.write_text(rows.read_text() + "\n{oops}\n")
    assert fault(tmp_path).startswith("requests.jsonl:3:2: is not JSON")
    rows.write_text("[1]\n")
    assert fault(tmp_path) == "requests.jsonl:1: is not a JSON object"
    rows.write_text(json.dumps({"input_toks": 1}))
    assert fault(tmp_path) == "requests.jsonl:1: no `output_toks`"
    rows.write_text("")
    assert fault(tmp_path) == "requests.jsonl: no request"
    rows.write_text(json.dumps(request()))
    (tmp_path / "meta.json").write_text('{\n "a": }')
    assert fault(tmp_path).startswith("meta.json:2:7: is not JSON")


def test_nothing_there(tmp_path: Path) -> None:
    assert "no requests.jsonl" in fault(tmp_path)
    assert "no such file" in fault(tmp_path / "absent.json")


def test_a_count_that_meta_does_not_confirm_is_a_note(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, [request()], META | {"num_requests": 2}))
    assert run.notes == ("requests.jsonl has 1 requests, meta.json says 2",)


def test_a_benchmark_result(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(BENCH))
    run = read_run(path)
    assert run.from_client and run.text("model") == "Qwen/Qwen3-8B" and run.failed == 0
    assert [(r.arrival, r.first, r.last) for r in run.requests] == [
        (0, 0.5, pytest.approx(0.8)),
        (1, 1.25, 1.25),
        (2, 3, 3.5),
    ]


def test_failed_requests_of_a_benchmark_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    failed = BENCH | {
        "errors": ["", "timeout", ""],
        "output_lens": [3, 0, 2],
        "start_times": [100.0, 0, 102.0],
    }
    path.write_text(json.dumps(failed))
    run = read_run(path)
    assert run.failed == 1 and [r.prompt_tokens for r in run.requests] == [10, 30]
    path.write_text(json.dumps(BENCH | {"errors": ["x", "x", "x"]}))
    assert fault(path) == "PATH: no request that succeeded"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"itls": None}, "no list `itls`"),
        ({"start_times": None}, "versions before `start_times` do not tell"),
        ({"ttfts": [1.0]}, "columns of different lengths: input_lens 3, output_lens 3, ttfts 1"),
        ({"ttfts": [0.5, "x", 1.0]}, "request 1: ttfts is 'x', not a time"),
        ({"itls": [[0.1, -0.2], [], []]}, "request 0: itls is not a list of times"),
        ({"output_lens": [3, 0, 2]}, "request 1: output_lens is 0"),
    ],
)
def test_a_bad_benchmark_result(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(BENCH | change))
    assert said in fault(path)
