"""`serq run`: output, options, exit codes; every bad input is one clear message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from serq.api import read_run
from serq.cli import main
from serq.compiled import is_compiled


def serq(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


def report_of(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_text(program: Path) -> None:
    result = serq(program)
    assert result.exit_code == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "served    3 sessions, 0.3/s; `done` mean 4, p50 4, p99 6; `late` mean 3, p50 2, p99 4",
        "warnings  none",
        "",
    ]
    assert lines[3].startswith("run to 10 s of 10 s, seed 1: 3 arrivals, 3 ended")
    assert lines[6].split() == ["done", "3", "4", "-", "0.25", "4", "-", "6", "-", "2", "6"]


def test_json_and_nothing_else(program: Path) -> None:
    report = report_of(serq(program, "--json"))
    assert report["observes"]["done"] == {"count": 3, "mean": 4, "ci": None, "cv2": 0.25, "p99": 6}


def test_options_replace_the_program(program: Path) -> None:
    assert report_of(serq(program, "--json", "--horizon", 4.5))["ended"] == 2
    assert report_of(serq(program, "--json", "--horizon", 4))["ended"] == 2
    assert report_of(serq(program, "--json", "--warmup", 3))["observes"]["done"]["count"] == 2
    assert report_of(serq(program, "--json", "--seed", 9))["seed"] == 9
    assert report_of(serq(program, "--json", "--set", "service=1"))["observes"]["done"]["mean"] == 2
    assert report_of(serq(program, "--json", "--set", "service = 2 * 1.5"))["observes"]["done"]["mean"] == 6


def test_arrivals(program: Path) -> None:
    program.write_text(program.read_text().replace("batch(3)", "poisson(0.5)"))
    report = report_of(serq(program, "--json", "--arrivals", 4, "--horizon", 1000))
    assert report["arrivals"] == report["ended"] == 4 and report["end"] < 1000


def test_a_trace(program: Path, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("0,0,5,0,0\n")
    (tmp_path / "other.csv").write_text("0,0,7,0,0\n")
    program.write_text(
        'workload { arrive batch(1); trace "own.csv" ordered; }\n'
        "session { turn; observe new = new; }\nrun { horizon 1; }\n"
    )
    assert report_of(serq(program, "--json"))["observes"]["new"]["mean"] == 5
    other = tmp_path / "other.csv"
    assert report_of(serq(program, "--json", "--trace", other))["observes"]["new"]["mean"] == 7


def test_a_trace_that_nothing_reads(program: Path, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("0,0,7,0,0\n")
    program.write_text("workload { arrive batch(1); }\nrun { horizon 1; }\n")
    result = serq(program, "--json", "--trace", tmp_path / "other.csv")
    assert result.exit_code == 0 and "warning[W608]: the program reads nothing of" in result.stderr


def test_dump(program: Path, tmp_path: Path) -> None:
    result = serq(program, "--dump", tmp_path / "out")
    assert result.exit_code == 0
    assert (
        tmp_path / "out" / "done.csv"
    ).read_text() == "time,session,turn,value\n2,0,0,2\n4,1,0,4\n6,2,0,6\n"
    assert (tmp_path / "out" / "late.csv").read_text() == "time,session,turn,value\n4,1,0,2\n6,2,0,4\n"


def test_an_ir_file_needs_no_parser(program: Path, tmp_path: Path) -> None:
    ir = tmp_path / "desk.json"
    ir.write_text(CliRunner().invoke(main, ["ir", str(program)]).stdout)
    assert serq(ir, "--json").stdout == serq(program, "--json").stdout
    code = (
        "import sys; from click.testing import CliRunner; from serq.cli import main\n"
        f"result = CliRunner().invoke(main, ['run', {str(ir)!r}])\n"
        "assert result.exit_code == 0, result.output\n"
        "assert not {'lark', 'serq.grammar', 'numpy', 'pandas', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


PLAIN = """
stage npu : vllm {
  max_num_seqs 4; max_num_batched_tokens 512; num_gpu_blocks 100; block_size 16; max_model_len 1024;
  async_scheduling false; cost 0.001 * tokens;
}
workload { arrive batch(3); init { set prompt = 100; set output = 5; } }
session { request r on npu (prompt, output); observe e2e = e2e(r); }
run { horizon 10; }
"""

NOT_NEEDED = ("serq.runtime.ascend", "serq.kernels.ascend", "serq.kernels.sglang", "simpy", "difflib",
              "numpy", "pandas", "matplotlib", "rich", "importlib.metadata", "html")  # fmt: skip


@pytest.mark.parametrize("through", ["command", "library"])
def test_a_plain_run_imports_only_what_it_needs(tmp_path: Path, through: str) -> None:
    """One vLLM engine, priced by an expression: no vllm-ascend, no layout, no clock, no suggestions."""
    file = tmp_path / "plain.sq"
    file.write_text(PLAIN)
    ways = {
        "command": f"from serq.cli import main; main(['run', {str(file)!r}], standalone_mode=False)",
        "library": "import serq; from serq.runtime.simulation import simulate\n"
        f"serq.Report(simulate(serq.compile({str(file)!r}).ir)).observations['e2e'].mean",
    }
    code = (
        f"import sys\n{ways[through]}\n"
        "assert 'serq.runtime.vllm.scheduler' in sys.modules\n"
        f"found = [m for m in sys.modules for n in {NOT_NEEDED!r} if m == n or m.startswith(n + '.')]\n"
        "assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_that_dies_keeps_what_it_recorded(program: Path, tmp_path: Path) -> None:
    program.write_text(program.read_text().replace("branch (serial > 0)", "branch (serial)"))
    result = serq(program, "--json", "--dump", tmp_path / "out")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["end"] == 6 and report["observes"]["done"]["count"] == 3 and "stopped" in report
    assert result.stderr.startswith("error: at time 6, session 2: ")
    assert "desk.sq:4:" in result.stderr
    assert (tmp_path / "out" / "done.csv").read_text().count("\n") == 4
    text = serq(program)
    assert text.stdout.startswith("answer    stopped at 6 s of 10 s: the condition of `branch` is 2")
    assert "\nstopped run to 6 s of 10 s" in text.stdout and "\nstopped: " in text.stdout


def test_a_run_folder(program: Path, tmp_path: Path) -> None:
    plain = serq(program).stdout
    assert serq(program, "--out", tmp_path / "run").stdout == plain
    assert repr(read_run(tmp_path / "run")) + "\n" == plain
    again = serq(program, "--out", tmp_path / "run")
    assert again.exit_code == 2 and "holds a run: give a new folder, or --overwrite" in again.stderr
    shorter = serq(program, "--out", tmp_path / "run", "--overwrite", "--out-format", "csv", "--horizon", 4.5)
    assert repr(read_run(tmp_path / "run")) + "\n" == shorter.stdout != plain
    assert (tmp_path / "run" / "observations" / "part-00000.csv").read_text() == (
        "observation,time,session,turn,value\ndone,2.0,0,0.0,2.0\ndone,4.0,1,0.0,4.0\nlate,4.0,1,0.0,2.0\n"
    )


def test_profile(program: Path) -> None:
    """Three jobs: three ends are three events; a `fifo` takes no steps."""
    result = serq(program, "--json", "--profile")
    assert report_of(result)["events"] == 3
    table = result.stderr.splitlines()
    assert [line.split()[0] for line in table] == ["profile", "load", "compile", "run", "report", "3"]
    assert all(float(figure) >= 0 for line in table[1:5] for figure in line.split()[1:])
    assert table[5].startswith("3 events (") and ", 0 steps (0 a second), peak memory " in table[5]


def test_the_profile_of_a_run_that_dies(program: Path) -> None:
    program.write_text(program.read_text().replace("branch (serial > 0)", "branch (serial)"))
    result = serq(program, "--profile")
    assert result.exit_code == 1 and "peak memory" in result.stderr and "error: at time 6" in result.stderr


BROKEN = {
    "empty.sq": b"",
    "comment.sq": b"// nothing\n",
    "binary.sq": b"\x7fELF\x00\x01\x02",
    "latin.sq": "let caf\xe9 = 1;".encode("latin-1"),
    "syntax.sq": b"stage desk fifo;\n",
    "zero.csv": b"",
    "row.csv": b"0,0,5,0,0\n0,0,x,0,0\n",
    "text.txt": b"not a trace\n",
    "broken.json": b"{",
    "list.json": b"[1, 2]",
    "empty.json": b"",
    "binary.json": b"\x00\x01",
    "deep.json": b"[" * 100_000,
    "deep.sq": b"let x = " + b"(" * 20_000 + b"1" + b")" * 20_000 + b";run { horizon 1; }",
}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.sq"], 1, "program none.sq: no such file"),
        (["."], 1, "program .: is a directory"),
        ([""], 2, "an empty path"),
        (["desk.sq", "--dump", ""], 2, "an empty path"),
        (["empty.sq"], 1, "empty.sq: run: error[E432]: the program does not say how long to run"),
        (["comment.sq"], 1, "how long to run"),
        (["binary.sq"], 1, "binary data"),
        (["latin.sq"], 1, "not UTF-8"),
        (["syntax.sq"], 1, "syntax.sq:1:12"),
        (["broken.json"], 1, "broken.json"),
        (["list.json"], 1, "list.json"),
        (["empty.json"], 1, "empty.json"),
        (["binary.json"], 1, "binary"),
        (["deep.json"], 1, "deep.json"),
        (["deep.sq"], 1, ""),
        (["desk.sq", "--horizon", "-1"], 2, "a horizon of -1"),
        (["desk.sq", "--horizon", "0"], 2, "a horizon of 0"),
        (["desk.sq", "--horizon", "nan"], 2, "a horizon of nan"),
        (["desk.sq", "--horizon", "inf"], 2, "a horizon of inf"),
        (["desk.sq", "--horizon", "soon"], 2, "'soon' is not a valid float"),
        (["desk.sq", "--warmup", "-1"], 2, "a warm-up of -1"),
        (["desk.sq", "--warmup", "10"], 1, "before the horizon"),
        (["desk.sq", "--arrivals", "0"], 2, "0 arrivals"),
        (["desk.sq", "--seed", "-1"], 2, "-1 is not in the range"),
        (["desk.sq", "--seed", "1.5"], 2, "'1.5' is not a valid integer"),
        (["desk.sq", "--set", "servise=1"], 1, "servise"),
        (["desk.sq", "--set", "service"], 2, "'service' is not NAME=EXPRESSION"),
        (["desk.sq", "--set", "service=", "--json"], 2, "'service=' is not NAME=EXPRESSION"),
        (["desk.sq", "--set", "service=1+"], 1, "service"),
        (["desk.sq", "--set", "service=now"], 1, "now"),
        (["desk.sq", "--set", "service=1", "--set", "service=2"], 2, "set twice"),
        (["desk.sq", "--trace", "none.csv"], 1, "trace none.csv: no such file"),
        (["desk.sq", "--trace", "zero.csv"], 1, "empty trace"),
        (["desk.sq", "--trace", "desk.sq"], 2, "desk.sq: a trace is wanted here"),
        (["row.csv"], 2, "row.csv: a program is wanted here"),
        (["desk.sq", "--trace", "text.txt"], 1, "a trace is a session CSV, an Azure CSV"),
        (["desk.sq", "--trace", "row.csv"], 1, "row.csv:2: column 3 (new)"),
        (["desk.sq", "--dump", "desk.sq"], 1, "desk.sq: cannot be made a folder"),
        (["desk.sq", "--dump", "/proc/nothing"], 1, "/proc/nothing: cannot be made a folder"),
        (["desk.sq", "--out", ""], 2, "an empty path"),
        (["desk.sq", "--out", "."], 2, "holds other files"),
        (["desk.sq", "--out", "desk.sq"], 1, "desk.sq: cannot be made a folder"),
        (["desk.sq", "--out", "run", "--steps"], 2, "--out cannot go with --steps"),
        (["desk.sq", "--out-format", "csv"], 2, "say how --out DIR is written"),
        (["desk.sq", "--out", "run", "--out-format", "xlsx"], 2, "'xlsx' is not one of"),
        (["desk.sq", "--overwrite"], 2, "say how --out DIR is written"),
        (["desk.sq", "--frobnicate"], 2, "No such option"),
        (["desk.sq", "desk.sq"], 2, "unexpected extra argument"),
        ([], 2, "Missing argument 'FILE'"),
    ],
)
def test_bad_input(
    program: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(program.parent)
    for name, data in BROKEN.items():
        Path(name).write_bytes(data)
    result = serq(*arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert result.stdout == ""
    assert isinstance(result.exception, SystemExit)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(program: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    result = serq(program, "--dump", tmp_path / "locked")
    assert result.exit_code == 1 and "cannot be written" in result.stderr


COMMAND = [sys.executable, "-m", "serq"]


def test_a_broken_pipe_is_no_traceback(program: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait()


def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    program = tmp_path / "long.sq"
    program.write_text(
        "stage desk : fifo;\nworkload { arrive renewal(1); }\n"
        "session { run desk (0.5); observe done = now; }\nrun { horizon 1e9; }\n"
    )
    code = (
        "import os, signal, sys, threading, time\n"
        "def interrupt():\n"
        "    while 'serq.runtime.simulation' not in sys.modules: time.sleep(0.1)\n"
        "    time.sleep(1.5)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "from serq.cli import main\n"
        f"main(['run', {str(program)!r}, '--json', '--dump', {str(tmp_path / 'out')!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 130, done.stderr
    report = json.loads(done.stdout)
    assert report["stopped"] == "interrupted" and report["observes"]["done"]["count"] > 0
    assert done.stderr.count("\n") == 1 and "interrupted" in done.stderr
    assert (tmp_path / "out" / "done.csv").read_text().count("\n") == report["observes"]["done"]["count"] + 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_message(program: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "run", str(program)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "error: the output cannot be written (No space left on device)\n"


def test_a_terminal_that_lacks_the_characters_of_a_name(program: Path) -> None:
    program.write_text(
        program.read_text("utf-8").replace("done", "\u0433\u043e\u0442\u043e\u0432\u043e"), "utf-8"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([*COMMAND, "run", str(program)], capture_output=True, env=environment, check=True)
    assert b"\\u0433\\u043e" in done.stdout and b"\xb1 95 %" in done.stdout


def test_nothing_is_shown_in_a_pipe(program: Path) -> None:
    done = subprocess.run([*COMMAND, "run", str(program)], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_module_version() -> None:
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    compiled = ", compiled" if is_compiled() else ""
    assert done.stdout == f"serq, version 0.1.0{compiled}\n"
