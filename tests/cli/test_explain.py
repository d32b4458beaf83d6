"""`serq explain`: of a metric, of a request, of a tail; of a program and of the folder of its run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import serq
from serq.cli import main
from serq.results.run_folder import description

PROGRAM = """
stage e : vllm { max_num_seqs 1; num_gpu_blocks 11; max_model_len 64; async_scheduling false; cost 1; }
workload { arrive batch(3); }
session { request r on e (16, 3); }
run { horizon 100; }
"""


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A program, and the folder of its run."""
    folder = tmp_path_factory.mktemp("explain")
    (folder / "p.sq").write_text(PROGRAM)
    written = CliRunner().invoke(main, ["run", str(folder / "p.sq"), "--out", str(folder / "run")])
    assert written.exit_code == 0
    return [str(folder / "p.sq"), str(folder / "run")]


def test_a_program_and_the_folder_of_its_run_tell_the_same(sources: list[str]) -> None:
    for options in (["--request", "worst"], ["--request", "1:r", "--json"], ["--tail", "ttft"]):
        one, other = (call(source, *options) for source in sources)
        assert one.exit_code == 0 and one.output == other.output
    assert "request 2 (session 2, `r`) at e" in call(sources[0], "--request", "worst").output
    found = json.loads(call(sources[1], "--request", "1", "--json").output)
    assert [(row["part"], row["seconds"]) for row in found["spent"]] == [
        ("slots", 3), ("prefill", 1), ("decode", 2)
    ]  # fmt: skip


def test_worst_by_a_metric(sources: list[str]) -> None:
    assert "request 0 " in call(sources[0], "--request", "worst", "--by", "tpot").output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["{}"], "give --request R or --tail METRIC"),
        (["{}", "--request", "9"], "no request 9: the run sent 3"),
        (["{}", "--request", "1:q"], "session 1 sent no request `q`; it sent `r`"),
        (["{}", "--request", "9:r"], "session 9 sent no request `r` (it sent none)"),
        (["{}", "--request", "1", "--tail", "ttft"], "give SOURCE and one of --request and --tail"),
        (["{}", "--tail", "ttft", "--by", "e2e"], "--by goes with --request"),
        (["--request", "1"], "give SOURCE"),
        (["ttft", "--json"], "give --request R or --tail METRIC"),
        (["--seed", "3"], "--seed is about a run"),
        (["tttf"], "did you mean `ttft`?"),
    ],
)
def test_wrong_calls(sources: list[str], options: list[str], message: str) -> None:
    result = call(*(option.format(sources[0]) for option in options))
    assert result.exit_code == 2 and message in result.output


def test_a_run_that_was_killed_is_not_explained(tmp_path: Path) -> None:
    """Requests and waits are written at times of their own: what is there need not belong together."""
    program = serq.compile(source=PROGRAM)
    serq.run(program, out=tmp_path)
    description.write(tmp_path, description.of_start(program.ir, "parquet"))
    result = call(str(tmp_path), "--request", "worst")
    assert result.exit_code == 2 and "the run was killed" in result.output


def test_a_folder_is_not_changed_by_options(sources: list[str]) -> None:
    result = call(sources[1], "--request", "0", "--seed", "4")
    assert result.exit_code == 2 and "--seed changes a program" in result.output
