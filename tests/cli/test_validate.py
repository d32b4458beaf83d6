"""`serq validate` as a command: what it prints, what it draws, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from serq.cli import main
from tests.validation.runs import META, request, write_model, write_run


def called(folder: Path, *arguments: str, run: Path | None = None) -> Result:
    tables, _ = write_model(folder)
    run = run or write_run(
        folder / "run", [request(16, 3, first=0.01, last=0.02), request(20, 1, 0.001, 0.001, 0.02, 0.02)]
    )
    model = ["--model-config", str(folder / "model.json"), "--tables", str(tables)]
    return CliRunner().invoke(main, ["validate", str(run), *model, *arguments])


def test_the_report(tmp_path: Path) -> None:
    result = called(tmp_path, "--plot", str(tmp_path / "plots"))
    assert result.exit_code == 0, result.output
    assert "vLLM 0.19.0 in the run, 0.19.0 in the tables" in result.stdout
    assert "scheduler of vLLM 0.27.1" in result.stdout
    assert "error of the prediction in percent; taken in by the engine (queued_ts)" in result.stdout
    assert "note: which prompts begin alike is not known" in result.stdout
    drawn = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert drawn == ["latencies.png", "requests.png", "throughput.png"]
    assert result.stderr.count("drawn: ") == 3


def test_json_is_one_object_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    result = called(tmp_path, "--json")
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["metrics"]) == {"ttft", "tpot", "e2e"}
    assert called(tmp_path, "--json").stdout == result.stdout


def test_a_benchmark_result(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    columns = {"input_lens": [16], "output_lens": [2], "ttfts": [0.1], "itls": [[0.1]], "start_times": [5.0]}
    path.write_text(json.dumps(columns | {"model_id": "tiny"}))
    result = called(tmp_path, "--json", run=path)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["origin"] == "arrival" and told["queue_delay"] is None
    assert told["versions"]["run"] == "not stated"


def test_files_that_cannot_be_used_end_with_1(tmp_path: Path) -> None:
    result = called(tmp_path, run=write_run(tmp_path / "bad", [request(0)], META))
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr == (
        f"error: {tmp_path}/bad/requests.jsonl:1: `input_toks` is 0, not a whole number above 0\n"
    )
    missing = CliRunner().invoke(main, ["validate", str(tmp_path / "run"), "--tables", str(tmp_path / "x")])
    assert missing.exit_code == 1


def test_wrong_calls_end_with_2(tmp_path: Path) -> None:
    assert called(tmp_path, "--link", "1e9").exit_code == 2
    assert called(tmp_path, "--link", "0").exit_code == 2
    assert called(tmp_path, "--max-num-seqs", "0").exit_code == 2
    assert called(tmp_path, "--nonsense").exit_code == 2
    assert CliRunner().invoke(main, ["validate", str(tmp_path)]).exit_code == 2


def test_a_request_that_never_fits_ends_with_1(tmp_path: Path) -> None:
    result = called(tmp_path, "--num-gpu-blocks", "2")
    assert result.exit_code == 1 and "never ends" in result.stderr
