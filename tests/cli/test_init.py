"""`serq init`: programs that a newcomer can run, test and change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import serq
from serq.cli import main
from serq.cli.init import KINDS
from serq.grammar.printer import format_source
from serq.source import SourceFile


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["init", *map(str, arguments)])


def written(folder: Path, kind: str) -> Path:
    path = folder / "first program.sq"
    assert invoke(path, "--kind", kind).exit_code == 0
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_compiles_without_a_warning_and_is_in_the_usual_form(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind)
    assert serq.check(path) == []
    text = path.read_text("utf-8")
    assert format_source(SourceFile(str(path), text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_keeps_what_it_promises_and_expects(tmp_path: Path, kind: str) -> None:
    report = serq.run(serq.compile(written(tmp_path, kind)))
    assert len(report.objectives) and report.objectives["met"].all()
    assert report.answers.expectations and all(outcome.holds for outcome in report.answers.expectations)
    assert report.warnings == ()


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_that_a_program_names_is_there(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind)
    text = path.read_text("utf-8")
    commands = re.findall(rf"^//   serq (\w+) '{re.escape(str(path))}'(.*?)(?:  |$)", text, re.MULTILINE)
    assert len(commands) >= 4
    for name, options in commands:
        known = {option for parameter in main.commands[name].params for option in parameter.opts}
        assert {word for word in options.split() if word.startswith("-")} <= known
        for let in re.findall(r"--(?:set|over) (\w+)", options):
            assert f"\nlet {let} = " in text


def test_the_default_is_a_vllm_engine_in_deployment_sq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke()
    assert result.exit_code == 0 and "serq run deployment.sq" in result.output
    assert "stage engine : vllm" in Path("deployment.sq").read_text("utf-8")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.sq"
    path.write_text("mine")
    result = invoke(path)
    assert result.exit_code == 2 and "exists already" in result.output
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [("mine.json", 2, "ends in .sq"), (".", 2, "ends in .sq"), ("gone/mine.sq", 1, "cannot be written")],
)
def test_where_nothing_can_be_written(tmp_path: Path, name: str, code: int, message: str) -> None:
    result = invoke(tmp_path / name)
    assert result.exit_code == code and message in result.output


def test_help_lists_the_kinds() -> None:
    output = invoke("--help").output
    assert all(re.search(rf"^ +{kind} +\w", output, re.MULTILINE) for kind in KINDS)
