"""Capacity of a deployment whose latency is known: a delay, and a queue with a closed form."""

import json

import pytest
from click.testing import CliRunner

from serq.cli import main
from serq.errors import UsageError
from serq.studies.backend import Backend
from serq.studies.capacity import CapacityPlan, capacity
from serq.studies.capacity_text import capacity_text

# every request is alone at its engine and takes 0.1 * rate seconds to its first token
ALONE = """
let rate = 1;
stage e : vllm { max_model_len 64; num_gpu_blocks 99; cost 0.1 * rate; async_scheduling false; }
workload { arrive closed(1); }
session { request r on e (16, 2); }
slo ttft p99 < 0.5;
run { horizon 40; }
"""

QUEUE = """
let rate = 0.5;
stage desk : fifo;
workload { arrive poisson(rate); }
session { set sent = now; run desk (~exp(1)); observe response = now - sent; }
slo response mean < 5;
run { horizon 6000; warmup 300; }
"""


@pytest.fixture
def alone(tmp_path):
    file = tmp_path / "alone.sq"
    file.write_text(ALONE)
    return file


def test_the_load_at_which_the_limit_is_reached(alone):
    result = capacity(CapacityPlan(alone, "rate", 1.0, replications=2, tolerance=0.001), backend=Backend(1))
    # the limit itself misses `< 0.5`
    assert result.exact and [search.seed for search in result.searches] == [1]  # nothing is drawn
    for search in result.searches:
        assert search.bounds.holds < 5.0 <= search.bounds.breaks <= search.bounds.holds * 1.001
    assert result.load.half_width is None
    text = capacity_text(result)
    assert text.startswith("highest `rate` that keeps every objective: 4.99")
    assert text.splitlines()[0].endswith("every seed gives the same and one was run)")
    assert "ttft p99 < 0.5: measured 0.5" in text and "nobody waited" in text
    # one request after the other, each of two steps that take a little less than 0.5 s: 40 in 40 s
    assert "holds at  requests/s there  breaks at" in text
    assert [search.at(search.bounds.holds).per_second for search in result.searches] == [1]


def test_mm1_holds_up_to_its_closed_form(tmp_path):
    file = tmp_path / "queue.sq"
    file.write_text(QUEUE)
    result = capacity(CapacityPlan(file, "rate", 0.5, replications=3, tolerance=0.02), backend=Backend(1))
    # the mean response of M/M/1 is 1 / (1 - rate): 5 at 0.8
    assert abs(result.load.mean - 0.8) < result.load.half_width + 0.02 < 0.15


def test_what_cannot_be_reached_names_the_nearest(alone):
    plan = CapacityPlan(alone, "rate", 1.0, slos=["e2e p50 < 0.01"], lowest=0.25, replications=1)
    result = capacity(plan, backend=Backend(1))
    assert not result.reachable and result.load.mean is None
    text = capacity_text(result)
    assert text.startswith("no `rate` keeps every objective: 1 of 1 seeds miss one down to 0.25")
    assert "e2e p50 < 0.01: measured 0.05" in text  # two steps of 0.025 s


def test_what_never_breaks_says_so(alone):
    result = capacity(CapacityPlan(alone, "rate", 1.0, highest=3.0, replications=1), backend=Backend(1))
    assert result.load.mean == 3.0 and not result.bounded
    assert "not every seed broke" in capacity_text(result)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"sets": {"rate": "2"}}, "searched over"),
        ({"lowest": 2.0}, "no load below 2, and a start at 1: .* starts at it or above"),
        ({"lowest": 0.0}, "no load below 0, .*: the lowest load is above 0"),
        ({"highest": 0.5}, "no load above 0.5, and a start at 1: .* or below"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"replications": 0}, "at least one"),
    ],
)
def test_plans_that_make_no_sense(alone, plan, said):
    with pytest.raises(UsageError, match=said):
        capacity(CapacityPlan(alone, "rate", 1.0, **plan), backend=Backend(1))


def test_a_program_without_an_objective(tmp_path):
    file = tmp_path / "p.sq"
    file.write_text(ALONE.replace("slo ttft p99 < 0.5;", ""))
    with pytest.raises(UsageError, match="no objective"):
        capacity(CapacityPlan(file, "rate", 1.0), backend=Backend(1))


def test_the_command(alone):
    words = ["capacity", str(alone), "--over", "rate", "--reps", "1", "--jobs", "1", "--lowest", "0.5"]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["load"] == pytest.approx(5.0, rel=0.011) and answer["ci95"] is None
    assert answer["seeds"][0]["runs"][0]["objectives"][0]["measured"] == pytest.approx(0.1)
    unreachable = CliRunner().invoke(main, [*words, "--slo", "tpot mean < 0.001"])
    assert unreachable.exit_code == 1 and unreachable.stdout.startswith("no `rate`")
    wrong = CliRunner().invoke(main, [*words, "--slo", "ttft p99 < 2; let x = 1"])
    assert wrong.exit_code == 1 and "an objective is one `slo`" in wrong.stderr


def test_without_over_the_lets_are_named(tmp_path):
    file = tmp_path / "p.sq"
    file.write_text("let off = 0;\nlet load = 2;\n" + ALONE)
    result = CliRunner().invoke(main, ["capacity", str(file), "--set", "load=3"])
    assert result.exit_code == 2
    assert result.stderr == "error: --over says which `let` scales the load: there are `rate` (1)\n"
    file.write_text(ALONE.replace("let rate = 1;", "").replace("rate", "1"))
    result = CliRunner().invoke(main, ["capacity", str(file)])
    assert result.exit_code == 2 and "has no `let` above 0 that a search could vary" in result.stderr
