"""A program on standard input: where `-` is taken, and where it is refused."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from serq.cli import main

PROGRAM = """
stage desk : fifo;
workload { arrive batch(3); }
session { run desk (2); observe done = now; }
run { horizon 10; }
expect largest(done) == 6;
"""


def call(*arguments: str, given: str | bytes = PROGRAM) -> Result:
    return CliRunner().invoke(main, arguments, input=given)


def test_a_program_is_run_checked_and_drawn() -> None:
    assert "expect: 1 of 1 hold" in call("run", "-").output
    assert "run to 4 s of 4 s" in call("run", "-", "--horizon", "4").output
    assert call("check", "-").output == "-: ok\n"
    assert call("draw", "-").output.startswith("<svg")


def test_an_ir_file_is_recognised() -> None:
    compiled = call("ir", "-")
    assert compiled.exit_code == 0
    one, other = (json.loads(call("run", "-", "--json", given=g).output) for g in (compiled.output, PROGRAM))
    assert one["observes"] == other["observes"] and one["expectations"][0]["holds"]


def test_a_byte_order_mark_is_dropped_and_other_bytes_are_refused() -> None:
    assert call("run", "-", given=b"\xef\xbb\xbf" + PROGRAM.encode()).exit_code == 0
    refused = call("run", "-", given=b"let a = \xff;")
    assert refused.exit_code == 1 and "standard input: is not UTF-8 text (byte 8)" in refused.output


def test_mistakes_have_a_place() -> None:
    result = call("run", "-", given="let a")
    assert result.exit_code == 1 and "<stdin>:1:6: error[E113]" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("sweep", "-", "--set", "a=1,2", "--out", "x"),
        ("capacity", "-", "--over", "a"),
        ("tune", "-"),
        ("compare", "-", "-"),
        ("test", "-"),
        ("fmt", "-"),
        ("run", "a.sq", "--trace", "-"),
        ("draw", "a.sq", "-o", "-"),
        ("trace", "info", "-"),
    ],
)
def test_commands_that_need_a_file_say_so(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert "`-` is taken for a program by `serq run`, `check`" in result.output
