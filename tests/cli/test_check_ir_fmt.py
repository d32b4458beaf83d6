"""`serq check`, `serq ir` and `serq fmt`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from serq.cli import main


def serq(*arguments: object) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def test_check_says_ok_or_what_is_wrong(program: Path, tmp_path: Path) -> None:
    assert serq("check", program).stdout == f"{program}: ok\n"
    broken = tmp_path / "broken.sq"
    broken.write_text("session { observe x = nobody; }\nrun { horizon 1; }\n")
    result = serq("check", program, broken, tmp_path / "none.sq")
    assert result.exit_code == 1
    assert result.stdout == f"{program}: ok\n"
    assert "broken.sq:1:23: error[" in result.stderr and "none.sq: no such file" in result.stderr


def test_check_json(program: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sq"
    broken.write_text("session { observe x = nobody; }\nrun { horizon 1; }\n")
    result = serq("check", "--json", program, broken, tmp_path / "none.sq")
    assert result.exit_code == 1 and result.stderr == ""
    ok, wrong, missing = json.loads(result.stdout)
    assert ok == {"file": str(program), "ok": True, "diagnostics": []}
    assert wrong["ok"] is False and wrong["diagnostics"][0]["line"] == 1
    assert missing["ok"] is False and "no such file" in missing["error"]


def test_check_takes_sets(program: Path) -> None:
    assert serq("check", program, "--set", "service=3").exit_code == 0
    assert serq("check", program, "--set", "nobody=3").exit_code == 1


def test_check_of_nothing_is_a_wrong_call() -> None:
    assert serq("check").exit_code == 2


def test_ir_is_json_that_loads_again(program: Path, tmp_path: Path) -> None:
    result = serq("ir", program)
    assert result.exit_code == 0 and json.loads(result.stdout)["version"] == 1
    (tmp_path / "desk.json").write_text(result.stdout)
    assert serq("ir", tmp_path / "desk.json").stdout == result.stdout
    assert serq("check", tmp_path / "desk.json").exit_code == 0


def test_sets_of_an_ir_file_are_refused(program: Path, tmp_path: Path) -> None:
    (tmp_path / "desk.json").write_text(serq("ir", program).stdout)
    result = serq("run", tmp_path / "desk.json", "--set", "service=1")
    assert result.exit_code == 2 and "no `let`s left" in result.stderr


def test_fmt(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("serq.grammar.printer")
    before = serq("ir", program).stdout
    assert serq("fmt", "--check", program).exit_code in (0, 1)
    assert serq("fmt", program).exit_code == 0
    assert serq("fmt", "--check", program).exit_code == 0
    assert serq("ir", program).stdout == before
    formatted = program.read_text()
    program.write_text(formatted.replace("\n", "\n\n\n   ").replace(" = ", "   =   "))
    mode = program.stat().st_mode
    result = serq("fmt", "--check", program)
    assert result.exit_code == 1 and "would be formatted" in result.stdout
    assert serq("fmt", program).stdout == f"{program}: formatted\n"
    assert program.stat().st_mode == mode and list(tmp_path.iterdir()) == [program]


def test_fmt_leaves_what_it_cannot_read(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("serq.grammar.printer")
    broken = tmp_path / "broken.sq"
    broken.write_text("stage {")
    result = serq("fmt", broken, tmp_path / "none.sq", program)
    assert result.exit_code == 1
    assert "broken.sq:1" in result.stderr and "no such file" in result.stderr
    assert broken.read_text() == "stage {"
