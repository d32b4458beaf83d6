"""One program with several seeds: means and intervals by hand, and what happens when a seed fails."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import serq
from serq.cli import main
from serq.errors import UsageError
from serq.studies.backend import Backend
from serq.studies.figures import figures
from serq.studies.replicate import replicate, replications_data, replications_text

# The seed draws how long the one customer takes: the mean of three runs and its interval follow from them.
PROGRAM = """
stage s : fifo;
workload { arrive batch(1); init { set work = ~exp(1); } }
session { run s (work); observe done = now; observe twice = 2 * now; }
slo done p50 < 1;
run { horizon 100; seed 5; }
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "p.sq"
    file.write_text(PROGRAM)
    return file


def run(*arguments: object):
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


def test_means_and_intervals_are_those_of_the_runs(program):
    alone = [serq.run(serq.compile(program, seed=seed)).observations["done"].mean for seed in (5, 6, 7)]
    data = replications_data(replicate(serq.compile(program), 3, backend=Backend(1)))
    found = data["figures"]["observes.done.mean"]
    mean = sum(alone) / 3
    half_width = 4.3027 * (sum((value - mean) ** 2 for value in alone) / 2 / 3) ** 0.5
    assert len(set(alone)) == 3 and found["values"] == alone and data["seeds"] == [5, 6, 7]
    assert (found["mean"], found["ci95"]) == pytest.approx((mean, half_width))
    twice = data["figures"]["observes.twice.mean"]
    assert (twice["mean"], twice["ci95"]) == pytest.approx((2 * mean, 2 * half_width))
    met = data["figures"]["objectives.done p50 < 1.met"]
    assert met["values"] == [int(value < 1) for value in alone]
    assert data["figures"]["observes.done.ci"] == {"mean": None, "ci95": None, "values": [None] * 3}


def test_objectives_and_goodput_are_figures_of_a_study(program):
    row = figures(serq.run(program))
    done = row["observes.done.mean"]
    assert row["goodput.all.per_second"] == (0.01 if done < 1 else 0)
    assert row["objectives.done p50 < 1.measured"] == done


def test_text(program):
    lines = replications_text(replicate(serq.compile(program), 3, backend=Backend(1))).splitlines()
    assert lines[0].startswith("3 runs to 100 s, seeds 5 to 7: mean over the runs")
    table = {line.split("  ")[0]: line.split() for line in lines}
    assert table["done count"][2:] == ["1", "0", "1", "1", "3"]
    assert "done ci" not in table and "done cv2" not in table  # a single sample determines neither


def test_the_command(program):
    done = run(program, "--reps", 2, "--jobs", 1, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["seeds"] == [5, 6]
    assert run(program, "--reps", 2, "--jobs", 1).stdout.startswith("2 runs to 100 s")


def test_a_seed_that_fails_fails_the_command_and_the_others_count(program):
    program.write_text(
        PROGRAM.replace("run s (work)", "branch (work > 1) { run s (0 - work); } run s (work)")
    )
    alone = [serq.run(serq.compile(source=PROGRAM, seed=s)).observations["done"].mean for s in range(5, 11)]
    bad = [seed for seed, value in zip(range(5, 11), alone, strict=True) if value > 1]
    assert 0 < len(bad) < 6
    done = run(program, "--reps", 6, "--jobs", 1, "--json")
    assert done.exit_code == 1
    assert f"{len(bad)} of 6 runs failed; seed {bad[0]}: at time 0" in done.stderr
    data = json.loads(done.stdout)
    assert list(data["failures"]) == [str(seed) for seed in bad]
    assert data["figures"]["observes.done.count"]["values"] == [1] * (6 - len(bad))


def test_a_program_that_draws_nothing_runs_once_and_is_exact(program):
    program.write_text(PROGRAM.replace("~exp(1)", "0.25"))
    result = replicate(serq.compile(program), 7, backend=Backend(1))
    data = replications_data(result)
    assert (data["replications"], data["seeds"], data["exact"]) == (1, [5], True)
    assert data["figures"]["observes.twice.mean"] == {"mean": 0.5, "ci95": None, "values": [0.5]}
    lines = replications_text(result).splitlines()
    assert lines[0].startswith("1 run to 100 s, seed 5: nothing is drawn")
    assert ["done", "mean", "0.25"] in [line.split() for line in lines]
    drawn = replications_data(replicate(serq.compile(source=PROGRAM), 2, backend=Backend(1)))
    assert (drawn["replications"], drawn["exact"]) == (2, False)


def test_the_one_run_that_fails_is_one(program):
    program.write_text(PROGRAM.replace("~exp(1)", "0 - 1"))
    done = run(program, "--reps", 3, "--jobs", 1)
    assert done.exit_code == 1 and "1 of 1 runs failed; seed 5" in done.stderr


def test_a_warning_of_all_runs_is_said_once(program):
    program.write_text(PROGRAM + "stage unused : fifo;\n")
    warned = run(program, "--reps", 2, "--jobs", 1)
    assert warned.exit_code == 0 and warned.stderr == run(program, "--json").stderr


@pytest.mark.parametrize(
    "options", [["--dump", "x"], ["--steps"], ["--out", "x"], ["--profile"], ["--steps-of", "s"]]
)
def test_options_of_a_single_run(program, options):
    done = run(program, "--reps", 2, *options)
    assert done.exit_code == 2 and "cannot go with --reps" in done.stderr


def test_calls_that_make_no_sense(program):
    assert "give --reps 2 or more" in run(program, "--jobs", 2).stderr
    assert run(program, "--reps", 0).exit_code == 2
    with pytest.raises(UsageError, match="at least two"):
        replicate(serq.compile(program), 1)
