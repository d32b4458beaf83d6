"""`serq test`: outcomes and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from serq.cli import main
from tests.cli.conftest import PROGRAM

HOLDS = PROGRAM + "expect order(done) == [2, 4, 6];\n"
FAILS = PROGRAM + "expect ended == 3;\nexpect mean(done) < 4;\n"


def serq(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["test", *map(str, arguments)])


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.sq").write_text(text)


def test_all_hold(tmp_path: Path) -> None:
    write(tmp_path, good=HOLDS)
    result = serq(tmp_path / "good.sq")
    assert result.exit_code == 0 and result.stderr == ""
    assert result.stdout == (
        f"{tmp_path}/good.sq:6: ok: expect order(done) == [2, 4, 6] (3 samples)\n"
        "1 of 1 expectations hold, in 1 file(s)\n"
    )


def test_one_fails(tmp_path: Path) -> None:
    write(tmp_path, bad=FAILS)
    result = serq(tmp_path / "bad.sq")
    assert result.exit_code == 1
    assert result.stdout == (
        f"{tmp_path}/bad.sq:6: ok: expect ended == 3 (ended is 3)\n"
        f"{tmp_path}/bad.sq:7:1: error[expectation-failed]: this does not hold: mean(done) is 4\n"
        " 7 | expect mean(done) < 4;\n"
        "   | ^^^^^^^^^^^^^^^^^^^^^^\n"
        "1 of 2 expectations hold, in 1 file(s)\n"
    )


def test_run_prints_the_outcome_and_does_not_fail(tmp_path: Path) -> None:
    write(tmp_path, bad=FAILS)
    result = CliRunner().invoke(main, ["run", str(tmp_path / "bad.sq")])
    assert result.exit_code == 0
    assert "\nexpect: 1 of 2 hold\n" in result.stdout and "warning[expectation-failed]" in result.stdout


def test_a_folder_is_searched_for_programs_that_expect_something(tmp_path: Path) -> None:
    inner, hidden = tmp_path / "inner", tmp_path / ".cache"
    inner.mkdir()
    hidden.mkdir()
    write(
        tmp_path,
        silent=PROGRAM,
        library="def wait(t) { run desk (t); }",
        comment=PROGRAM + "// expect ended == 9;\n",
    )
    write(inner, good=HOLDS)
    write(hidden, bad=FAILS)
    result = serq("--json", tmp_path)
    assert result.exit_code == 0
    assert [verdict["file"] for verdict in json.loads(result.stdout)] == [str(inner / "good.sq")]


def test_json(tmp_path: Path) -> None:
    write(tmp_path, bad=FAILS, broken="expect 1 > ;", silent=PROGRAM)
    dies = PROGRAM.replace("run desk (service)", "run desk (0 - service + serial * 0)") + "expect ended == 3;"
    write(tmp_path, dies=dies)
    files = [tmp_path / f"{name}.sq" for name in ("bad", "broken", "silent", "dies", "none")]
    result = serq("--json", *files)
    assert result.exit_code == 1 and result.stderr == ""
    bad, broken, silent, died, none = json.loads(result.stdout)
    assert bad["ok"] is False and [outcome["holds"] for outcome in bad["expectations"]] == [True, False]
    assert bad["expectations"][1] == {
        "expect": "expect mean(done) < 4",
        "holds": False,
        "measured": "mean(done) is 4",
        "file": str(files[0]),
        "line": 7,
        "column": 1,
    }
    assert (
        "error[E110]" in broken["error"]
        and "is not an amount" in died["error"]
        and str(files[3]) in died["error"]
    )
    assert silent == {"file": str(files[2]), "ok": True, "expectations": []}
    assert "no such file" in none["error"]


def test_errors_go_to_stderr(tmp_path: Path) -> None:
    write(tmp_path, broken="expect 1 > ;")
    result = serq(tmp_path)
    assert result.exit_code == 1 and result.stdout == "" and "error[E110]" in result.stderr


def test_nothing_to_check_is_a_wrong_call(tmp_path: Path) -> None:
    write(tmp_path, silent=PROGRAM)
    for arguments in ([tmp_path], [tmp_path / "silent.sq"], [""], []):
        assert serq(*arguments).exit_code == 2
    assert "no program has an `expect`" in serq(tmp_path).stderr


def test_an_ir_file(tmp_path: Path) -> None:
    write(tmp_path, bad=FAILS)
    ir = CliRunner().invoke(main, ["ir", str(tmp_path / "bad.sq")]).stdout
    (tmp_path / "bad.json").write_text(ir)
    result = serq(tmp_path / "bad.json")
    assert result.exit_code == 1
    assert (
        "expect mean(done) < 4: error[expectation-failed]: this does not hold: mean(done) is 4"
        in result.stdout
    )


def test_a_program_that_does_not_compile_is_counted(tmp_path: Path) -> None:
    write(tmp_path, good=HOLDS, broken=HOLDS.replace("stage", "stag"))
    result = serq(tmp_path / "good.sq", tmp_path / "broken.sq")
    assert result.exit_code == 1
    assert result.stdout.endswith(
        "1 of 1 expectations hold, in 2 file(s); 1 of them did not compile or run\n"
    )
