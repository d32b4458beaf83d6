"""`serq run --steps`: the steps of an engine one under another."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from serq.cli import main

PROGRAM = """stage npu[2] : vllm { num_gpu_blocks 100; max_model_len 4096; max_num_seqs 4; cost 0.5; }
workload { arrive batch(2); }
session { request r on npu[serial] (100, 3); }
run { horizon 10; }
"""


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    """Two engines with a request each: a prefill of 100 tokens and two decodes."""
    path = tmp_path / "engines.sq"
    path.write_text(PROGRAM)
    return path


def serq(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


def listed(result: Result) -> list[list[str]]:
    """The tables behind the report, as words."""
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    first = next(place for place, line in enumerate(lines) if line and line[0] in ("npu[0]:", "npu[1]:"))
    return [line for line in lines[first:] if line]


PREFILL = ["1", "0", "0.5", "PrefillNoCache", "0", "100", "0", "NONE", "1", "0"]
DECODES = [["2", "0.5", "0.5", "DecodeOnly", "1", "0", "0", "FULL", "1", "0"],
           ["3", "1", "0.5", "DecodeOnly", "1", "0", "0", "FULL", "1", "0"]]  # fmt: skip


def test_every_step_of_every_engine(engines: Path) -> None:
    table = listed(serq(engines, "--steps"))
    assert table[1:4] == [PREFILL, *DECODES]
    assert table[5:] == [PREFILL, *DECODES]


@pytest.mark.parametrize(
    ("given", "rows"), [("2..3", DECODES), ("3", DECODES[1:]), ("..1", [PREFILL]), ("2..", DECODES)]
)
def test_a_range_of_one_member(engines: Path, given: str, rows: list[list[str]]) -> None:
    assert listed(serq(engines, "--steps", given, "--steps-of", "npu[1]"))[1:] == rows


def test_a_stage_alone_lists_all_its_steps(engines: Path) -> None:
    assert len(listed(serq(engines, "--steps-of", "npu"))) == 8
    assert len(listed(serq(engines, "--steps-of", "npu[0]"))) == 4


@pytest.mark.parametrize("given", ["0..2", "3..2", "x", "..", "1-2"])
def test_what_is_no_range(engines: Path, given: str) -> None:
    result = serq(engines, "--steps", given)
    assert result.exit_code == 2 and "N..M" in result.stderr


def test_what_cannot_be_listed(engines: Path, program: Path) -> None:
    assert serq(engines, "--steps-of", "gpu").exit_code == 2
    assert serq(engines, "--steps", "--json").exit_code == 2
    result = serq(program, "--steps", "1..")
    assert result.exit_code == 2 and "no vllm stage" in result.stderr
