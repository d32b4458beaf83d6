"""`serq sweep` as a command."""

from click.testing import CliRunner

from serq.cli import main

PROGRAM = """
let work = 1;
stage s : fifo;
workload { arrive batch(3); }
session { run s (work); observe done = now; }
run { horizon 1000; }
"""


def invoke(*words):
    return CliRunner().invoke(main, ["sweep", *map(str, words)])


def test_the_table_and_the_folder(tmp_path):
    file, out = tmp_path / "queue.sq", tmp_path / "out"
    file.write_text(PROGRAM)
    result = invoke(file, "--set", "work=1,2", "--out", out, "--jobs", 1, "--show", "done.mean")
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()[:3]] == [
        ["point", "work", "observes.done.mean"], ["0", "1", "2"], ["1", "2", "4"],
    ]  # fmt: skip
    assert "2 points, 2 runs" in result.stdout


def test_failed_runs_end_in_exit_code_1_and_are_named(tmp_path):
    file, out = tmp_path / "queue.sq", tmp_path / "out"
    file.write_text(PROGRAM)
    result = invoke(file, "--set", "work=1,0-2", "--out", out, "--jobs", 1)
    assert result.exit_code == 1
    assert "1 runs failed" in result.stderr and "work=0-2, seed 1:" in result.stderr
    assert (out / "points.csv").exists()


def test_wrong_calls_end_in_exit_code_2(tmp_path):
    file = tmp_path / "queue.sq"
    file.write_text(PROGRAM)
    assert invoke(file, "--set", "work=1:2", "--out", tmp_path / "a").exit_code == 2
    assert invoke(file, "--set", "work=1").exit_code == 2
    shown = invoke(file, "--set", "work=1", "--out", tmp_path / "b", "--jobs", 1, "--show", "done.maen")
    assert shown.exit_code == 2 and "did you mean `done.mean`" in shown.stderr
