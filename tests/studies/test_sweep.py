"""Sweeps: what they keep, how they go on after a kill, and that where they run changes no byte."""

import csv
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from serq.cli import main
from serq.errors import CompileError, UsageError
from serq.studies.axes import parse_axis
from serq.studies.backend import Backend
from serq.studies.folder import TIMING
from serq.studies.shown import figure_columns
from serq.studies.sweep import SweepPlan, sweep

PROGRAM = """
let work = 1;  let customers = 3;
stage s : fifo;
workload { arrive batch(customers); }
session { run s (work); observe done = now; }
run { horizon 1000; }
"""

SLOW = """
let rate = 1;
stage s : fifo;
workload { arrive poisson(rate); }
session { run s (~exp(0.5)); observe done = now; }
run { horizon 2000; }
"""


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "queue.sq"
    file.write_text(PROGRAM)
    return file


def plan(file, *axes, **more):
    return SweepPlan(file, [parse_axis(axis) for axis in axes], **more)


def digest(folder: Path) -> dict[str, str]:
    """Every file but the seconds spent."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != TIMING
    }


def test_every_point_has_the_figures_of_its_run(program, tmp_path):
    result = sweep(plan(program, "work=1,2", "customers=1:3:2"), tmp_path / "out", backend=Backend(1))
    # `fifo` ends its customers at w, 2w, 3w: the mean is w (c + 1) / 2
    rows = [(p["work"], p["customers"], p["observes.done.mean"], p["runs"]) for p in result.points]
    assert rows == [("1", "1", 1.0, 1), ("1", "3", 2.0, 1), ("2", "1", 2.0, 1), ("2", "3", 4.0, 1)]
    with open(tmp_path / "out" / "points.csv", newline="") as file:
        assert [float(row["observes.done.mean"]) for row in csv.DictReader(file)] == [1.0, 2.0, 2.0, 4.0]


def test_points_share_their_seeds_and_replications_do_not(tmp_path):
    file = tmp_path / "queue.sq"
    file.write_text(SLOW.replace("~exp(0.5)", "0.25 * ~exp(rate)"))
    result = sweep(plan(file, "rate=1,2", replications=3), tmp_path / "out", backend=Backend(1))
    assert [run["seed"] for run in result.runs] == [1, 2, 3, 1, 2, 3]
    arrivals = [run["arrivals"] for run in result.runs]
    assert len(set(arrivals[:3])) > 1
    point = result.points[0]
    assert point["arrivals"] == pytest.approx(sum(arrivals[:3]) / 3)
    assert point["arrivals.ci95"] > 0


def test_a_failure_is_listed_with_its_point_and_the_others_go_on(program, tmp_path):
    result = sweep(plan(program, "work=1,0-1,2"), tmp_path / "out", backend=Backend(1))
    assert [run["failure"] is None for run in result.runs] == [True, False, True]
    (failure,) = result.failures
    assert failure["work"] == "0-1"
    assert [point["failed"] for point in result.points] == [0, 1, 0]
    assert "0-1" in (tmp_path / "out" / "failures.csv").read_text()


def test_a_wrong_name_and_a_wrong_folder_are_told_before_anything_runs(program, tmp_path):
    with pytest.raises(CompileError, match="wrok"):
        sweep(plan(program, "wrok=1,2"), tmp_path / "a", backend=Backend(1))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(UsageError, match="other files"):
        sweep(plan(program, "work=1,2"), tmp_path / "full", backend=Backend(1))
    with pytest.raises(UsageError, match="both an axis and"):
        sweep(plan(program, "work=1,2", sets={"work": "1"}), tmp_path / "b", backend=Backend(1))


def test_a_folder_belongs_to_one_study(program, tmp_path):
    sweep(plan(program, "work=1,2"), tmp_path / "out", backend=Backend(1))
    with pytest.raises(UsageError, match="another axes"):
        sweep(plan(program, "work=1,3"), tmp_path / "out", backend=Backend(1))
    program.write_text(PROGRAM.replace("horizon 1000", "horizon 1001"))
    with pytest.raises(UsageError, match="sha256"):
        sweep(plan(program, "work=1,2"), tmp_path / "out", backend=Backend(1))
    again = sweep(plan(program, "work=1,3"), tmp_path / "out", backend=Backend(1), overwrite=True)
    assert [point["work"] for point in again.points] == ["1", "3"]


def test_what_is_there_is_not_run_again(program, tmp_path):
    first = sweep(plan(program, "work=1:4:1"), tmp_path / "out", backend=Backend(1))
    before = digest(tmp_path / "out")
    (tmp_path / "out" / "runs" / "000002.json").unlink()
    told = []
    second = sweep(
        plan(program, "work=1:4:1"), tmp_path / "out", backend=Backend(1), watch=lambda *now: told.append(now)
    )
    assert told == [(3, 4, 0), (4, 4, 0)]
    assert second.points == first.points
    assert digest(tmp_path / "out") == before


def test_a_killed_sweep_goes_on_to_the_same_bytes(tmp_path):
    file = tmp_path / "queue.sq"
    file.write_text(SLOW)
    axes = ("--set", "rate=0.2:1.6:0.2", "--reps", "3")
    command = [sys.executable, "-m", "serq", "sweep", str(file), *axes, "--jobs", "1", "--out"]
    undisturbed = tmp_path / "undisturbed"
    subprocess.run([*command, str(undisturbed)], check=True, capture_output=True)

    killed = tmp_path / "killed"
    process = subprocess.Popen([*command, str(killed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while len(list(killed.glob("runs/0*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(list(killed.glob("runs/0*.json")))
    assert 3 <= kept < 24, "the kill came too late to mean anything"
    assert not (killed / "points.csv").exists()

    subprocess.run([*command, str(killed)], check=True, capture_output=True)
    assert digest(killed) == digest(undisturbed)


def test_processes_and_a_dask_cluster_give_the_same_bytes(program, tmp_path):
    pytest.importorskip("joblib")
    distributed = pytest.importorskip("distributed")
    wanted = plan(program, "work=1:6:1", replications=2)
    sweep(wanted, tmp_path / "one", backend=Backend(1))
    sweep(wanted, tmp_path / "two", backend=Backend(2))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, processes=False
    ) as cluster:
        sweep(wanted, tmp_path / "dask", backend=Backend(dask=cluster.scheduler_address))
    assert digest(tmp_path / "two") == digest(tmp_path / "one")
    assert digest(tmp_path / "dask") == digest(tmp_path / "one")


def test_a_point_that_draws_nothing_runs_once(program, tmp_path):
    told = []
    result = sweep(
        plan(program, "work=1,2", replications=5),
        tmp_path / "out",
        backend=Backend(1),
        watch=lambda *now: told.append(now),
    )
    # three customers end at w, 2w and 3w whatever the seed: their mean is 2w
    assert result.exact and [(run["point"], run["seed"]) for run in result.runs] == [(0, 1), (1, 1)]
    rows = [(p["runs"], p["observes.done.mean"], p["observes.done.mean.ci95"]) for p in result.points]
    assert rows == [(1, 2.0, None), (1, 4.0, None)]
    assert told[-1] == (2, 2, 0)
    before = digest(tmp_path / "out")
    (tmp_path / "out" / "runs" / "000005.json").unlink()
    again = sweep(plan(program, "work=1,2", replications=5), tmp_path / "out", backend=Backend(1))
    assert again.points == result.points and digest(tmp_path / "out") == before


def test_a_point_that_draws_keeps_its_seeds_beside_one_that_does_not(program, tmp_path):
    program.write_text(
        PROGRAM.replace("let work", "let chance = 0; let work")
        .replace(
            "run s (work);",
            "request r on e (16, 4);",
        )
        .replace(
            "stage s : fifo;",
            "stage e : vllm { num_gpu_blocks 99; max_model_len 64; cost 1; async_scheduling false;"
            " speculative ngram { k 1; accept chance; } }",
        )
    )
    result = sweep(plan(program, "chance=0,0.5,1", replications=3), tmp_path / "out", backend=Backend(1))
    assert [point["runs"] for point in result.points] == [1, 3, 1]


def test_the_command_says_that_one_seed_was_run(program, tmp_path):
    words = ["sweep", str(program), "--set", "work=1,2", "--jobs", "1", "--out"]
    done = CliRunner().invoke(main, [*words, str(tmp_path / "a"), "--reps", "3", "--show", "done.mean"])
    assert done.exit_code == 0 and done.stdout.count("nothing is drawn") == 1 and "±" not in done.stdout
    single = CliRunner().invoke(main, [*words, str(tmp_path / "b")])
    assert single.exit_code == 0 and "nothing is drawn" not in single.stdout


def test_a_cluster_that_is_not_there(program, tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(UsageError, match="no Dask scheduler"):
        sweep(plan(program, "work=1,2"), tmp_path / "out", backend=Backend(dask="tcp://127.0.0.1:1"))


def test_backends_that_make_no_sense():
    with pytest.raises(UsageError, match="0 jobs"):
        Backend(0).check()


FAMILY = """
let members = 2;
stage gpu[members] : vllm {
  num_gpu_blocks 100; max_model_len 4096; max_num_seqs 1; async_scheduling false; cost 1;
}
workload { arrive batch(4); }
session {
  choose j in members by (waiting(gpu[j]) + running(gpu[j]));
  request r on gpu[j] (100, 2);
}
slo ttft p99 < 2;
run { horizon 20; }
"""


def test_figures_of_all_requests_whatever_the_number_of_engines(tmp_path):
    """Two steps a request, one at a time: first tokens after 1 and 3 s at each of two, 1 to 7 s at one."""
    file = tmp_path / "family.sq"
    file.write_text(FAMILY)
    result = sweep(SweepPlan(file, [parse_axis("members=1,2")]), tmp_path / "study", backend=Backend(1))
    one, two = result.points
    assert (one["requests.ttft.mean"], one["requests.ttft.p50"], one["requests.ttft.p99"]) == (4, 3, 7)
    assert (two["requests.ttft.mean"], two["requests.ttft.p50"], two["requests.ttft.p99"]) == (2, 1, 3)
    assert one["requests.per_second"] == 4 / 20 == two["requests.per_second"]
    assert two["requests.input_tokens_per_second"] == 400 / 20
    assert two["requests.output_tokens_per_second"] == 8 / 20
    shown = figure_columns(result.points, [])
    assert shown[:2] == ["requests.ttft.mean", "requests.ttft.p99"] and shown[-1] == "goodput.all.share"
    assert figure_columns(result.points, ["ttft.p99"]) == ["requests.ttft.p99"]
    assert figure_columns(result.points, ["gpu[1].ttft.p99"]) == ["engines.gpu[1].ttft.p99"]
    assert figure_columns(result.points, ["goodput_share"]) == ["goodput.all.share"]
    assert [point["goodput.all.share"] for point in result.points] == [0.25, 0.5]
