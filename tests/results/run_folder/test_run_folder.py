"""A run in a folder tells what the run in memory tells, and what is written survives whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from math import isnan
from pathlib import Path

import pandas
import pytest
from pandas.testing import assert_frame_equal

import serq
from serq.results import Report
from serq.results.page import as_page
from serq.results.plots.engines import timelines
from serq.results.run_folder import PartFormat, RunWriter, description, read_run
from serq.results.run_folder.columns import TABLES
from serq.results.run_folder.part_files import PartFiles

PROGRAM = """
stage desk : fifo;
stage engine[2] : vllm {
  num_gpu_blocks 60; max_model_len 400; max_num_seqs 3; enable_prefix_caching false;
  cost 0.02 + 0.0001 * tokens;
}
executor chip : roofline { model "Qwen3-8B"; device "910B3"; }
stage priced : vllm { num_gpu_blocks 100; max_model_len 999; cost via chip; }
stage slow : vllm { num_gpu_blocks 60; max_model_len 400; cost 120; }
workload { arrive poisson(4); }
session {
  run desk (~exp(0.1));
  observe spread = serial - 2 * now;
  branch (serial == 40) { request hung on slow (300, 90) abort after (300); }
  request r on engine[serial - 2 * floor(serial / 2)] (20 + 7 * (serial - 5 * floor(serial / 5)), 5);
  observe ttft = ttft(r);
  branch (serial < 20) { request q on priced (100, 4); }
}
gauge waiting = queue(engine[0]);
run { horizon 400; warmup 10; }
"""
PARTS = [("parquet", 400), ("csv", 400), ("parquet", 65_536)]


def write(folder: Path, text: str, part_format: PartFormat = "parquet", rows: int = 65_536) -> Report:
    program = serq.compile(source=text)
    return serq.run(program, out=RunWriter.open(folder, program.ir, part_format, rows_a_part=rows))


def assert_equal(one: Report, other: Report) -> None:
    assert one.to_json() == other.to_json()
    assert repr(one) == repr(other)
    names = ("summary", "stages", "pools", "gauges", "engines", "requests", "steps", "queue", "preemptions")
    for name in names:
        assert_frame_equal(getattr(one, name), getattr(other, name))
    for name in other.observations:
        assert_frame_equal(one.observe(name), other.observe(name))


@pytest.fixture(scope="module")
def in_memory() -> Report:
    report = serq.run(serq.compile(source=PROGRAM))
    assert len(report.requests) > 1_400 and (report.requests["finish_reason"] == "abort").sum() == 1
    return report


@pytest.mark.parametrize(("part_format", "rows"), PARTS)
def test_the_run_and_its_folder_tell_the_same(
    tmp_path: Path, in_memory: Report, part_format: PartFormat, rows: int
) -> None:
    """Also where a request stays open while thousands of rows leave memory."""
    written = write(tmp_path / "run", PROGRAM, part_format, rows)
    assert_equal(written, in_memory)
    assert_equal(read_run(tmp_path / "run"), in_memory)
    parts = len(list((tmp_path / "run" / "requests").iterdir()))
    assert parts == 1 if rows > 4_000 else parts >= 2
    assert not list(tmp_path.rglob("*.unfinished"))


def test_the_tables_are_described(tmp_path: Path) -> None:
    write(tmp_path / "run", PROGRAM)
    found = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (found["state"], found["models"]) == ("complete", {"vllm": "0.27.1"})
    assert serq.Program.from_json(json.dumps(found["program"])).ir == serq.compile(source=PROGRAM).ir
    assert found["settings"] == {"horizon": 400, "warmup": 10, "seed": 1, "arrivals": None}
    assert not (tmp_path / "run" / "preemptions").exists()  # a table without rows has no files
    for table in set(TABLES) - {"preemptions"}:
        parts = [pandas.read_parquet(path) for path in (tmp_path / "run" / table).iterdir()]
        columns = found["tables"][table]["columns"]
        assert [list(part.columns) for part in parts] == [[column["name"] for column in columns]]
        assert all(column["meaning"] for column in columns)


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(tmp_path / name, PROGRAM, rows=300)
    files = [sorted(p.relative_to(tmp_path / n) for p in (tmp_path / n).rglob("*")) for n in ("one", "other")]
    assert files[0] == files[1]
    for file in files[0]:
        if (tmp_path / "one" / file).is_file():
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_dumped_samples(tmp_path: Path, in_memory: Report) -> None:
    write(tmp_path / "run", PROGRAM, rows=400)
    read_run(tmp_path / "run").dump(tmp_path / "stored")
    in_memory.dump(tmp_path / "memory")
    for name in ("spread", "ttft"):
        assert (tmp_path / "stored" / f"{name}.csv").read_bytes() == (
            tmp_path / "memory" / f"{name}.csv"
        ).read_bytes()


STARVING = """
stage engine : vllm {
  num_gpu_blocks 60; max_model_len 400; max_num_seqs 1; waiting priority; cost 10;
}
stage d : delay;
workload { arrive batch(400); }
session { run d (9.9 * serial); request r on engine (5, 1) priority (100 * (serial == 120)); }
run { horizon 5000; }
"""


def test_a_starved_request_is_found_in_the_parts(tmp_path: Path) -> None:
    expected = serq.run(serq.compile(source=STARVING))
    assert [warning.code for warning in expected.warnings] == ["starvation"]
    found = write(tmp_path / "run", STARVING, rows=50)
    assert [w.message for w in found.warnings] == [w.message for w in expected.warnings]


# --- what dies ------------------------------------------------------------------------------------------

ENDLESS = """
stage desk : fifo;
workload { arrive renewal(1); }
session { run desk (0.5); observe done = now; }
run { horizon 1e12; }
"""


def start(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    """Run the endless program until it has written two parts."""
    (tmp_path / "endless.sq").write_text(ENDLESS)
    command = [sys.executable, "-m", "serq", "run", "endless.sq", "--out", "run", *options]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "run" / "observations").glob("part-*"))) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_a_run_that_is_killed_keeps_its_parts(tmp_path: Path) -> None:
    process = start(tmp_path)
    process.kill()
    process.communicate()
    (tmp_path / "run" / "observations" / ".part-00009.parquet.unfinished").write_bytes(b"half of it")
    report = serq.read_run(tmp_path / "run")
    samples = report.observe("done")
    assert len(samples) >= 131_072
    assert samples["value"].tolist() == [1.5 + i for i in range(len(samples))]
    assert report.observations["done"].mean == 1.5 + (len(samples) - 1) / 2
    assert report.stopped is not None and "did not come to its end" in repr(report)
    assert report.records.end == samples["time"].iloc[-1]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "running"


def test_the_engines_of_a_killed_run_are_those_of_the_program(tmp_path: Path) -> None:
    """The run never wrote its end: options and pictures of its engines are those of the whole run."""
    whole = write(tmp_path / "run", PROGRAM, rows=400)
    ended = {(row.name, row.member): row for row in whole.records.engines}
    killed = as_if_killed(tmp_path / "run", PROGRAM)
    assert killed.stopped is not None
    for row in killed.records.engines:
        assert row.options == ended[row.name, row.member].options
    assert timelines(killed.whole_records()) == timelines(whole.whole_records())
    assert "did not come to its end" in as_page(killed, "run") and "token_budget" in as_page(killed, "run")


def test_blocks_of_a_killed_run_that_an_executor_computed(tmp_path: Path) -> None:
    """How many there were is not known: the share in use is of the most that were free."""
    text = PROGRAM.replace("stage priced : vllm { num_gpu_blocks 100;", "stage priced : vllm {")
    whole = write(tmp_path / "run", text, rows=400)
    killed = as_if_killed(tmp_path / "run", text)
    one, other = (
        next(row for row in report.records.engines if row.name == "priced") for report in (whole, killed)
    )
    assert other.options == tuple(option for option in one.options if option[0] != "num_gpu_blocks")
    drawn = next(row for row in timelines(killed.whole_records()) if row.name == "priced")
    usage = [share for share in drawn.kv_usage if not isnan(share)]
    assert usage and min(usage) >= 0 and max(usage) <= 1


def as_if_killed(folder: Path, text: str) -> Report:
    """The report of a run whose description says nothing of its end."""
    description.write(folder, description.of_start(serq.compile(source=text).ir, "parquet"))
    return read_run(folder)


def test_a_run_that_is_interrupted_keeps_everything(tmp_path: Path) -> None:
    process = start(tmp_path, "--json")
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    report = serq.read_run(tmp_path / "run")
    assert report.stopped == "interrupted" and report.to_json() + "\n" == printed
    samples = report.observe("done")
    assert len(samples) == report.records.ended or len(samples) == report.records.ended + 1
    assert samples["value"].tolist() == [1.5 + i for i in range(len(samples))]


def test_a_run_that_fails_keeps_everything(tmp_path: Path) -> None:
    text = ENDLESS.replace(
        "observe done = now;", "observe done = now; branch (serial < 5) { } else { grow p (1); }"
    )
    text = "pool p { cap 1; }\n" + text
    program = serq.compile(source=text)
    with pytest.raises(serq.RunError) as caught:
        serq.run(program, out=serq.open_run_folder(tmp_path / "run", program))
    report = serq.read_run(tmp_path / "run")
    assert caught.value.report is not None and report.to_json() == caught.value.report.to_json()
    assert report.observe("done")["value"].tolist() == [1.5 + i for i in range(6)]
    assert report.stopped is not None and "holds no `p`" in report.stopped


def test_nothing_recorded_is_a_run_too(tmp_path: Path) -> None:
    text = "stage d : delay;\nsession { observe x = 1; }\nrun { horizon 1; }"
    assert_equal(write(tmp_path / "run", text), serq.run(serq.compile(source=text)))
    assert len(read_run(tmp_path / "run").observe("x")) == 0
    with pytest.raises(serq.UsageError, match="no observation `y`"):
        read_run(tmp_path / "run").observe("y")


# --- folders --------------------------------------------------------------------------------------------


def test_a_folder_is_not_written_over_by_accident(tmp_path: Path) -> None:
    program = serq.compile(source=ENDLESS.replace("1e12", "3"))
    serq.run(program, out=serq.open_run_folder(tmp_path / "run", program))
    with pytest.raises(serq.UsageError, match="holds a run: give a new folder, or --overwrite"):
        serq.open_run_folder(tmp_path / "run", program)
    assert len(serq.read_run(tmp_path / "run").observe("done")) == 2
    other = serq.compile(source=ENDLESS.replace("1e12", "2").replace("done", "over"))
    serq.run(other, out=serq.open_run_folder(tmp_path / "run", other, "csv", overwrite=True))
    assert list(serq.read_run(tmp_path / "run").observations) == ["over"]
    assert sorted(path.name for path in (tmp_path / "run").rglob("part-*")) == ["part-00000.csv"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(serq.UsageError, match="mine holds other files"):
        serq.open_run_folder(tmp_path / "mine", program, overwrite=True)
    assert (tmp_path / "mine" / "thesis.tex").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none", None, "no such file"),
        ("empty", {}, "is no run folder"),
        ("list", {"run.json": "[]"}, "has version None"),
        ("later", {"run.json": '{"run_folder": 2}'}, "has version 2, and this serq reads version 1"),
        ("text", {"run.json": "run"}, "is not JSON"),
    ],
)
def test_folders_that_hold_no_run(
    tmp_path: Path, name: str, content: dict[str, str] | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).mkdir()
        for file, text in content.items():
            (tmp_path / name / file).write_text(text)
    with pytest.raises(serq.DataError, match=message):
        serq.read_run(tmp_path / name)


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import serq
from serq.cli import main
main(sys.argv[1:], standalone_mode=False)
print(serq.read_run("run").observe("done")["value"].tolist())
"""


def test_without_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "endless.sq").write_text(ENDLESS)

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-c",
            WITHOUT_PYARROW,
            "run",
            "endless.sq",
            "--horizon",
            "4",
            "--out",
            "run",
        ]
        return subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)

    refused = run()
    assert refused.returncode == 2 and not (tmp_path / "run").exists()
    assert refused.stderr == (
        "error: Parquet files need pyarrow: pip install 'serq[parquet]'. "
        "CSV needs nothing: --out-format csv\n"
    )
    done = run("--out-format", "csv")
    assert done.returncode == 0 and done.stdout.endswith("[1.5, 2.5, 3.5]\n")


def test_a_disk_that_is_full_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = serq.compile(source=ENDLESS.replace("1e12", "3"))
    writer = serq.open_run_folder(tmp_path / "run", program)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(serq.DataError, match=r"part-00000\.parquet: cannot be written .No space left"):
        serq.run(program, out=writer)


def test_names_of_any_kind_survive(tmp_path: Path) -> None:
    parts = PartFiles(tmp_path, "observations", "csv")
    names = ["nan", "", 'a"b,c', "\u0433\u043e", "NA"]
    rows = {"observation": names, "time": [0.1, 2e-308, 1e300, 3.0, 4.0], "session": range(5)}
    parts.write({**rows, "turn": [1.0] * 5, "value": [float("nan"), float("inf"), -float("inf"), -0.0, 0.3]})
    (frame,) = parts.read()
    assert frame["observation"].tolist() == names and frame["time"].tolist() == rows["time"]
    assert repr(frame["value"].tolist()) == "[nan, inf, -inf, -0.0, 0.3]"


MEASURE = """
import resource, sys
from serq.cli import main
try:
    main(["run", *sys.argv[1:]])
except SystemExit:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units elsewhere")
def test_more_samples_need_no_more_memory(tmp_path: Path) -> None:
    """In memory a sample takes over a hundred bytes: 120,000 more would be 12 MB."""
    (tmp_path / "endless.sq").write_text(ENDLESS)

    def peak(horizon: int) -> float:
        command = [
            sys.executable,
            "-c",
            MEASURE,
            "endless.sq",
            "--horizon",
            str(horizon),
            "--out",
            "run",
            "--overwrite",
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert f"{horizon - 1} ended" in done.stdout
        return float(done.stdout.splitlines()[-1])

    assert peak(200_000) - peak(80_000) < 6


ASKS = """
slo ttft p90 < 0.2;
slo spread p50 < 100;
expect ended > 0 && mean(ttft) < 9 && p50(ttft) > 0 && requests(engine[1]) > 0;
expect mean(waiting) < 0;
"""


@pytest.mark.parametrize(("part_format", "rows"), [("csv", 400), ("csv", 65_536)])
def test_what_a_program_asks_is_answered_the_same(tmp_path: Path, part_format: PartFormat, rows: int) -> None:
    memory = serq.run(serq.compile(source=PROGRAM + ASKS))
    written = write(tmp_path / "run", PROGRAM + ASKS, part_format, rows)
    assert_equal(written, memory)
    read = read_run(tmp_path / "run")
    assert_equal(read, memory)
    assert [outcome.holds for outcome in read.answers.expectations] == [True, False]
    assert read.answers == memory.answers
