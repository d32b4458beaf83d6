"""Comparisons whose differences follow by hand, from queueing theory, or are nothing."""

import json
from math import comb, isnan

import pytest
from click.testing import CliRunner

from serq.cli import main
from serq.errors import RunError, UsageError
from serq.studies.backend import Backend
from serq.studies.compare import ComparePlan, Difference, Verdict, compare
from serq.studies.compare_text import changes, compare_data, compare_text
from serq.studies.measures import Name
from serq.studies.replications import student_975

ONE = Backend(1)

# One request at a time, a step takes `step` seconds: a prefill and two decodes each, both sent at time 0.
ENGINE = """
let step = 1;
stage e : vllm { max_num_seqs 1; max_num_batched_tokens 32; max_model_len 64; num_gpu_blocks 11;
                 async_scheduling false; enable_prefix_caching false; cost step; }
workload { arrive batch(2); }
session { request r on e (16, 3) class (serial); }
slo e2e p50 < 4;
run { horizon 100; }
"""

QUEUE = """
let load = 0.5;
stage server : fifo;
workload { arrive poisson(load); init { set service = ~exp(1); } }
session { set sent = now; run server (service); observe response = now - sent; }
slo response mean < 9;
run { horizon 1800; warmup 300; }
"""


@pytest.fixture
def engine(tmp_path):
    file = tmp_path / "engine.sq"
    file.write_text(ENGINE)
    return file


@pytest.fixture
def queue(tmp_path):
    file = tmp_path / "queue.sq"
    file.write_text(QUEUE)
    return file


def found(result):
    return {(one.name.row, one.name.column): one for one in result.differences}


def test_steps_that_take_twice_as_long(engine):
    """TTFT 1 and 4 become 2 and 8, E2E 3 and 6 become 6 and 12, a token takes 1 and then 2."""
    result = compare(ComparePlan(engine, sets_b={"step": "2"}, replications=2), backend=ONE)
    rows = found(result)
    assert rows["ttft", "mean"].interval == (2.5, 0.0) and rows["ttft", "p99"].interval == (4.0, 0.0)
    assert rows["e2e", "mean"].means == (4.5, 9.0) and rows["tpot", "p50"].interval == (1.0, 0.0)
    assert rows["e2e", "mean"].verdict is rows["ttft", "p50"].verdict is Verdict.WORSE
    # one of two requests ends within 4 s, then none: goodput falls from 0.01 to 0 a second
    assert rows["e2e p50 < 4", "share within"].interval == (-0.5, 0.0)
    assert rows["goodput all", "per second"].means == (0.01, 0.0)
    assert rows["goodput all", "per second"].verdict is Verdict.WORSE
    # 2 requests, 32 prompt and 6 output tokens in 100 s on both sides
    assert [rows[row, "per second"].means for row in ("requests", "input tokens", "output tokens")] == [
        (0.02, 0.02), (0.32, 0.32), (0.06, 0.06),
    ]  # fmt: skip
    assert rows["requests", "per second"].verdict is Verdict.EQUAL
    # the engine works 6 and then 12 of 100 s; nothing says which is better
    assert rows["e", "utilization"].interval == pytest.approx((0.06, 0.0))
    assert rows["e", "utilization"].verdict is Verdict.HIGHER


def test_which_requests_drive_it(engine):
    """The first one (class 0) waits for nobody: E2E + 3; the second + 6, two thirds of all changes."""
    result = compare(ComparePlan(engine, sets_b={"step": "2"}, replications=2), backend=ONE)
    assert result.by == "class"
    second, first = result.groups
    assert (second.name, second.count, second.changes["e2e"], second.total["e2e"]) == (
        "class 1", 2, (6.0, 0.0), 12.0,
    )  # fmt: skip
    assert (first.name, first.changes["e2e"], first.changes["ttft"]) == ("class 0", (3.0, 0.0), (1.0, 0.0))
    assert [(one.key.session, one.seed, one.difference) for one in result.lost] == [
        (1, 1, 6.0), (1, 2, 6.0), (0, 1, 3.0), (0, 2, 3.0),
    ]  # fmt: skip
    assert result.gained == [] and result.lost[0].size == (16, 3)
    text = compare_text(result)
    assert "4 requests are in both runs" in text and "66.7 %" in text and "33.3 %" in text


def test_groups_by_something_else(engine):
    for by, name in (("handle", "r"), ("stage", "e"), ("turn", "turn 0")):
        (group,) = compare(
            ComparePlan(engine, sets_b={"step": "2"}, by=by, replications=1), backend=ONE
        ).groups
        assert (group.name, group.count, group.total["e2e"]) == (name, 2, 9.0)


def test_requests_that_one_run_did_not_end(engine):
    """Steps of 20 s: the first request ends at 60 s, the second would at 120 s."""
    result = compare(ComparePlan(engine, sets_b={"step": "20"}, replications=1), backend=ONE)
    (pair,) = result.pairs
    assert (pair.matched.count, pair.matched.only_a, pair.matched.only_b) == (1, 1, 0)
    assert found(result)["e2e", "mean"].verdict is Verdict.OPEN
    assert "1 ended in A only, 0 in B only" in compare_text(result)


def test_nothing_differs_from_itself(queue):
    result = compare(ComparePlan(queue, queue, replications=2), backend=ONE)
    assert {one.verdict for one in result.differences} == {Verdict.EQUAL}
    assert all(one.interval == (0.0, 0.0) for one in result.differences)
    assert result.lost == result.gained == []
    assert all(pair.matched.only_a == pair.matched.only_b == 0 for pair in result.pairs)


def test_a_queue_at_two_loads(queue):
    """M/M/1: a customer spends 1 / (1 - load) there. 2 becomes 1.4286, and `slo` says that less is better."""
    plan = ComparePlan(queue, sets_b={"load": "0.3"}, replications=8)
    row = found(compare(plan, backend=ONE))["response", "mean"]
    change, half_width = row.interval
    assert abs(change - (1 / 0.7 - 2)) <= half_width < 0.3
    assert row.verdict is Verdict.BETTER


def test_intervals_hold_the_truth_as_often_as_they_say(queue):
    """24 intervals of 4 seeds each; the same services make the differences spread less than either side."""
    plan = ComparePlan(queue, sets_b={"load": "0.4"}, replications=96, settings={"horizon": 1000.0})
    row = found(compare(plan, backend=ONE))["response", "mean"]
    truth = 1 / 0.6 - 2
    quarters = [Difference(row.name, "", row.a[i : i + 4], row.b[i : i + 4]) for i in range(0, 96, 4)]
    holds = sum(abs(one.interval.mean - truth) <= one.interval.half_width for one in quarters)
    # by chance fewer than 20 of 24 hold less than once in 150 times
    assert sum(comb(24, k) * 0.95**k * 0.05 ** (24 - k) for k in range(20)) < 1 / 150
    assert holds >= 20
    above = sum(b - a > truth for a, b in row.pairs)
    # sign test: the median of a fair coin's 96 throws is 48, its standard deviation 4.9
    assert abs(above - 48) < 3 * 4.9

    def spread(values):
        centre = sum(values) / len(values)
        return sum((value - centre) ** 2 for value in values)

    assert spread([b - a for a, b in row.pairs]) < (spread(row.a) + spread(row.b)) / 2


def test_verdicts():
    def verdict(a, b, better="less"):
        return Difference(Name("requests", "e2e", "mean"), better, a, b).verdict

    nan = float("nan")
    assert verdict([1, 1], [2, 2]) is Verdict.WORSE and verdict([1, 1], [2, 2], "more") is Verdict.BETTER
    assert verdict([1, 1], [2, 2], "") is Verdict.HIGHER and verdict([2, 2], [1, 1], "") is Verdict.LOWER
    # B - A is 1 and 3: mean 2, half-width 12.7 * 1
    assert verdict([1, 1], [2, 4]) is Verdict.NONE and student_975(1) > 2
    assert verdict([1], [2]) is Verdict.OPEN and verdict([1], [1]) is Verdict.EQUAL
    assert verdict([1, nan], [1, nan]) is Verdict.OPEN and verdict([nan], [nan]) is Verdict.OPEN


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({}, "nothing to compare"),
        ({"sets_b": {"load": "1"}, "sets": {"load": "2"}}, "for both sides and for one"),
        ({"sets_b": {"load": "0.1"}, "replications": 0}, "at least one"),
        ({"sets_b": {"load": "0.1"}, "metric": "itl"}, "no latency `itl`"),
        ({"sets_b": {"load": "0.1"}, "shown": 0}, "at least one"),
        ({"sets_b": {"load": "0.1"}, "by": "class"}, "requests of `vllm` stages"),
    ],
)
def test_plans_that_make_no_sense(queue, plan, said):
    with pytest.raises(UsageError, match=said):
        compare(ComparePlan(queue, **plan), backend=ONE)


def test_a_run_that_fails_says_on_which_side(queue):
    queue.write_text(queue.read_text().replace("run server (service)", "run server (service - load * 9)"))
    with pytest.raises(RunError, match="B with seed 1: at time"):
        compare(ComparePlan(queue, sets_a={"load": "1e-9"}, sets_b={"load": "2"}), backend=ONE)


def test_the_command(queue, tmp_path):
    def serq(*words):
        return CliRunner().invoke(main, ["compare", str(queue), "--jobs", "1", "--reps", "2", *words])

    done = serq("--set-b", "load=0.1", "--plot", str(tmp_path / "x.svg"))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("B against A, 2 seeds, of ")
    assert "response mean" in (tmp_path / "x.svg").read_text()
    data = json.loads(serq("--set-b", "load=0.1", "--json").stdout)
    assert data["seeds"] == [1, 2] and data["b"].endswith("queue.sq load=0.1")
    row = next(one for one in data["figures"] if (one["row"], one["column"]) == ("response", "mean"))
    assert row["better"] == "less" and len(row["values_b"]) == 2
    assert row["difference"] == pytest.approx(row["b"] - row["a"])
    assert data["groups"][0]["name"] == "response" and data["lost"][0]["difference"] > 0
    wrong = serq()
    assert wrong.exit_code == 2 and "nothing to compare" in wrong.stderr
    assert serq("--set-b", "lode=1").exit_code == 1


def test_plain_data_and_picture_say_the_same(engine):
    result = compare(ComparePlan(engine, sets_b={"step": "2"}, replications=2), backend=ONE)
    data = compare_data(result)
    assert data["matched"] == {"count": 4, "resized": 0, "only_a": 0, "only_b": 0}
    assert [change.difference for change in changes(result)] == [
        row["difference"] for row in data["figures"] if row["difference"] is not None
    ]


def test_what_draws_nothing_is_exact_and_has_no_interval(engine):
    """A prefill and two decodes of 1 s, twice: E2E 3 and 6, with steps of 2 s twice that."""
    result = compare(ComparePlan(engine, sets_b={"step": "2"}, replications=3), backend=ONE)
    assert result.exact
    text = compare_text(result)
    assert "all 3 seeds give the same on each side: the differences are exact" in text
    assert "at 95 % by itself" not in text and "± 0" not in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("e2e mean")]
    assert row == ["e2e", "mean", "4.5", "9", "4.5", "exact", "+100.0", "%", "worse"]
    data = compare_data(result)
    assert data["exact"] is True and {figure["ci95"] for figure in data["figures"]} == {None}
    assert all(change["ci95"] is None for group in data["groups"] for change in group["changes"].values())
    assert all(isnan(change.half_width) for change in changes(result))


def test_programs_that_draw_are_not_exact(queue):
    drawn = compare(ComparePlan(queue, sets_b={"load": "0.6"}, replications=2), backend=ONE)
    one_seed = compare(ComparePlan(queue, sets_b={"load": "0.6"}, replications=1), backend=ONE)
    assert not drawn.exact and not one_seed.exact
    assert "each verdict is at 95 % by itself" in compare_text(drawn)
