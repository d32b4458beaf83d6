"""`serq trace`: from files to files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from serq.cli import main

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6800000,374,44
2023-11-16 18:15:47.1800000,396,109
2023-11-16 18:15:56.6800000,100,7
"""


@pytest.fixture
def azure(tmp_path: Path) -> Path:
    path = tmp_path / "azure.csv"
    path.write_text(AZURE)
    return path


def test_a_program_is_no_trace(tmp_path: Path) -> None:
    result = serq("info", tmp_path / "engine.sq")
    assert result.exit_code == 2
    assert "a trace is wanted here, and .sq is the ending of a program" in result.output


def serq(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, arguments)])


def test_info(azure: Path) -> None:
    text = serq("info", azure).output.splitlines()
    assert text[:4] == [
        "format               azure",
        "sessions             3",
        "turns                3",
        "duration, s          10",
    ]
    facts = json.loads(serq("info", azure, "--json").output)
    assert facts["new tokens, mean"] == 290 and facts["out tokens, largest"] == 109
    assert facts["sessions per second"] == 0.2 and facts["different hash ids"] is None


def test_convert_to_a_session_csv(azure: Path) -> None:
    assert serq("convert", azure).output.splitlines() == [
        "session,turn,new,out,think,forced,time",
        "0,0,374,44,0,0,0",
        "1,0,396,109,0,0,0.5",
        "2,0,100,7,0,0,10",
    ]
    assert serq("convert", azure, "--no-times").output.splitlines()[:2] == [
        "session,turn,new,out,think,forced",
        "0,0,374,44,0,0",
    ]


def test_convert_a_table_with_columns_of_other_names(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("done,who,at,asked\n44,a,1700000000000,374\n109,b,1700000000500,396\n", "utf-8")
    columns = ("--columns", "time=at,input_len=asked,output_len=done")
    assert serq("convert", table, *columns, "--time-unit", "ms").output.splitlines() == [
        "session,turn,new,out,think,forced,time",
        "0,0,374,44,0,0,0",
        "1,0,396,109,0,0,0.5",
    ]
    wrong = serq("convert", table, "--columns", "input_len=ask,output_len=done")
    assert wrong.exit_code == 1 and "no column `ask`; did you mean `asked`?" in wrong.output
    assert serq("convert", table, "--time-unit", "ms").exit_code == 2
    assert "`serq trace convert --columns` makes one" in serq("info", table).output


def test_convert_writes_files_and_says_what_is_lost(tmp_path: Path) -> None:
    mooncake = tmp_path / "m.jsonl"
    mooncake.write_text('{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n')
    result = serq("convert", mooncake, "-o", tmp_path / "out.csv")
    assert result.exit_code == 0 and "hash ids" in result.stderr and result.stdout == ""
    assert (tmp_path / "out.csv").read_text().endswith("0,0,600,5,0,0,0\n")
    result = serq("convert", mooncake, "--to", "azure")
    assert result.stdout.splitlines()[1] == "2000-01-01 00:00:00.0000000,600,5"


def test_scale_keeps_the_format(azure: Path) -> None:
    lines = serq("scale", azure, "--speed", 2).output.splitlines()
    assert lines[0] == "TIMESTAMP,ContextTokens,GeneratedTokens"
    assert lines[3] == "2000-01-01 00:00:05.0000000,100,7"


def test_cut(azure: Path) -> None:
    assert len(serq("cut", azure, "--window", "0:10").output.splitlines()) == 3
    assert len(serq("cut", azure, "--window", "0.5:").output.splitlines()) == 3
    assert len(serq("cut", azure, "--rows", ":1").output.splitlines()) == 2
    assert (
        serq("cut", azure, "--rows", "2:3")
        .output.splitlines()[1]
        .startswith("2000-01-01 00:00:00.0000000,100")
    )


def test_resample(azure: Path) -> None:
    arguments = ("resample", azure, "--sessions", 50, "--rate", 4, "--to", "session")
    first = serq(*arguments, "--seed", 7)
    assert first.exit_code == 0 and len(first.output.splitlines()) == 51
    assert serq(*arguments, "--seed", 7).output == first.output
    assert serq(*arguments, "--seed", 8).output != first.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["info", "none.csv"], 1, "error: trace none.csv: no such file"),
        (["cut", "AZURE"], 2, "give either --window A:B or --rows A:B"),
        (["cut", "AZURE", "--rows", "0:1", "--window", "0:1"], 2, "give either"),
        (["cut", "AZURE", "--rows", "x"], 2, "'x' is not a range such as 0:600"),
        (["cut", "AZURE", "--rows", "7:9"], 2, "error: no session of the trace begins in this range"),
        (["scale", "AZURE", "--speed", "0"], 2, "error: a speed of 0"),
        (["scale", "AZURE", "--speed", "nan"], 2, "error: a speed of nan"),
        (["resample", "AZURE", "--sessions", "0"], 2, "error: 0 sessions"),
        (["resample", "AZURE", "--seed", "-1"], 2, "-1 is not in the range"),
        (["convert", "AZURE", "--to", "mooncake"], 1, "error: a trace with no hash ids cannot be written"),
        (["convert", "AZURE", "-o", "/"], 1, "error: /: cannot be written (Is a directory)"),
    ],
)
def test_refusals_are_one_message(azure: Path, arguments: list[str], code: int, message: str) -> None:
    result = serq(*(azure if argument == "AZURE" else argument for argument in arguments))
    assert result.exit_code == code
    assert message in result.stderr and "Traceback" not in result.output
    assert result.stdout == ""
