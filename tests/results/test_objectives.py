"""Objectives and goodput of tables written by hand (design_language.md)."""

from __future__ import annotations

from math import isnan, nan

import pytest

import serq
from serq.ir.expectations import Objective
from serq.results.objectives import ObjectiveRow, goodput_rows, objective_rows
from serq.runtime.records import Records, Series
from serq.runtime.request_records import FINISH_REASONS
from tests.results.example import example_records

END, WARMUP = 100.0, 10.0


def records(*requests: dict[str, object]) -> Records:
    """A run to 100, warmed up at 10, of requests with the columns given."""
    out = example_records()
    out.end, out.warmup = END, WARMUP
    for request in requests:
        table = out.requests
        label = request.pop("label", nan)
        sent = request.pop("sent", 20.0)
        place = table.open(int(request.pop("session", 0)), 1, "r", 0, label, sent, 8)  # type: ignore[call-overload, arg-type]
        reason = request.pop("reason", "length")
        table.finish_reason[place] = FINISH_REASONS.index(str(reason))
        for name, value in request.items():
            getattr(table, name)[place] = value
    return out


def served(
    ttft: float, *, label: float = nan, sent: float = 20.0, tokens: int = 3, session: int = 0
) -> dict[str, object]:
    """A request served in full, a token a second after its first."""
    last = sent + ttft + tokens - 1
    return {
        "sent": sent,
        "queued": sent,
        "scheduled": sent + ttft / 2,
        "first_token": sent + ttft,
        "last_token": last,
        "finish": last,
        "generated": tokens,
        "deliveries": tokens,
        "label": label,
        "session": session,
    }


def unfinished(sent: float, **columns: object) -> dict[str, object]:
    return {"sent": sent, "queued": sent, "reason": "", **columns}


def row(objective: Objective, *requests: dict[str, object]) -> ObjectiveRow:
    return objective_rows([objective], records(*requests))[0]


def ttft(limit: float, statistic: str = "p95", label: float | None = None) -> Objective:
    return Objective("ttft", "request", statistic, "<", limit, label)


@pytest.mark.parametrize(("fast", "met"), [(95, True), (94, False)])
def test_a_quantile_is_met_by_that_share(fast: int, met: bool) -> None:
    """Within means strictly below: 5 is not within `< 5`."""
    found = row(ttft(5.0), *(served(1) for _ in range(fast)), *(served(5) for _ in range(100 - fast)))
    assert (found.requests, found.within, found.met) == (100, fast / 100, met)
    assert found.measured == (1 if met else 5)
    assert found.low < fast / 100 < found.high
    closed = Objective("ttft", "request", "p95", "<=", 5.0)
    assert row(closed, *(served(5) for _ in range(3))).within == 1


def test_a_share_that_is_exactly_the_quantile_is_enough() -> None:
    """0.55 * 100 is 55.00000000000001 in floating point."""
    assert row(ttft(5.0, "p55"), *(served(1) for _ in range(55)), *(served(9) for _ in range(45))).met is True


def test_unfinished_requests_miss_what_they_cannot_reach_any_more() -> None:
    found = row(ttft(5.0), served(1), unfinished(END - 5), unfinished(END - 4.9))
    assert (found.requests, found.undecided, found.within) == (2, 1, 0.5)
    first_token_came = row(ttft(5.0), unfinished(30.0, first_token=31.0, last_token=90.0, generated=9))
    assert (first_token_came.requests, first_token_came.within) == (1, 1)


def test_the_metrics_of_unfinished_requests() -> None:
    late = unfinished(30.0, first_token=31.0, scheduled=30.5, last_token=90.0, generated=9, deliveries=9)
    limits = {"ttft": 1.0, "queue_time": 0.5, "e2e": 70.0, "tpot": None, "itl": None}
    for metric, exact in limits.items():
        for limit in (0.4, 1000.0):
            found = row(Objective(metric, "request", "p50", "<=", limit), dict(late))
            if exact is None or (metric == "e2e" and limit == 1000.0):
                assert (found.requests, found.undecided, found.met) == (0, 1, None)
            else:
                assert (found.requests, found.within) == (1, float(limit == 1000.0))
    assert (
        row(Objective("queue_time", "request", "p50", "<", 1.0), unfinished(30.0, queued=nan)).undecided == 1
    )


def test_a_limit_from_below() -> None:
    """`> 5`: what has waited longer is within already."""
    wanted = Objective("ttft", "request", "p50", ">", 5.0)
    assert row(wanted, unfinished(30.0)).within == 1
    assert row(wanted, unfinished(98.0)).undecided == 1
    found = row(Objective("ttft", "request", "p90", ">", 2.0), *(served(float(t)) for t in range(1, 11)))
    assert (found.within, found.met, found.measured) == (0.8, False, 1)


def test_requests_that_were_not_served() -> None:
    rejected = {"finish": 20.0, "reason": "rejected"}
    gave_up = {
        "first_token": 21.0,
        "last_token": 22.0,
        "generated": 2,
        "deliveries": 2,
        "finish": 30.0,
        "reason": "abort",
    }
    assert row(ttft(5.0), dict(rejected), dict(gave_up)).within == 0.5
    assert row(Objective("e2e", "request", "p50", "<", 50.0), dict(rejected), dict(gave_up)).within == 0
    assert row(Objective("tpot", "request", "p50", "<", 1.5), dict(rejected), dict(gave_up)).within == 0.5
    assert row(ttft(5.0, "p99"), served(1), dict(rejected)).measured == float("inf")


def test_one_token_has_no_time_per_token() -> None:
    found = row(Objective("tpot", "request", "p50", "<", 0.5), served(1, tokens=1), served(1, tokens=3))
    assert (found.requests, found.undecided, found.within) == (1, 0, 0)


def test_the_warm_up_and_the_class() -> None:
    early = served(1, sent=0.0, label=1)  # ended at 3
    found = row(ttft(5.0, label=1.0), early, served(1, label=1), served(9, label=2), served(9))
    assert (found.requests, found.within) == (1, 1)
    assert row(ttft(5.0, label=3.0), served(1, label=1)).met is None


def test_the_mean() -> None:
    found = row(ttft(3.0, "mean"), served(1), served(4), unfinished(99.0))
    assert (found.measured, found.met, found.undecided) == (2.5, True, 1) and isnan(found.within)


def test_itl_counts_steps_and_tpot_tokens() -> None:
    drafted = served(1, tokens=5) | {"deliveries": 3}
    assert row(Objective("tpot", "request", "p50", "<", 9.0), dict(drafted)).measured == 1.0
    assert row(Objective("itl", "request", "p50", "<", 9.0), dict(drafted)).measured == 2.0


def test_goodput_is_within_all_limits_of_the_class() -> None:
    objectives = [
        ttft(5.0, label=0.0),
        ttft(2.0, label=1.0),
        Objective("e2e", "request", "p90", "<", 10.0),
        ttft(0.0, "mean"),
    ]
    table = records(
        served(4, label=0),
        served(4, label=1),  # too slow for its class
        served(1, label=1),
        served(1, label=1, tokens=20),  # too long
        served(1, label=2),  # no limit of its own
        served(1, sent=0.0, label=0),  # before warm-up
        {
            "first_token": 21.0,
            "last_token": 22.0,
            "finish": 25.0,
            "generated": 2,
            "reason": "abort",
            "label": 0.0,
        },
        unfinished(98.0, label=0.0),  # undecided
        unfinished(30.0, label=0.0),  # missed
    )
    everyone, *classes = goodput_rows(objectives, table)
    assert (everyone.about, everyone.good, everyone.per_second, everyone.share) == ("all", 3, 3 / 90, 3 / 7)
    assert [(c.about, c.good, c.share) for c in classes] == [
        ("class 0", 1, 1 / 3),
        ("class 1", 1, 1 / 3),
        ("class 2", 1, 1.0),
    ]


def test_goodput_counts_requests_and_a_class_of_the_answers_counts_sessions() -> None:
    """Four sessions of two requests each, below 2 s but for one prompt and one answer."""
    prompts, answers = (1, 1, 3, 1), (1, 3, 1, 1)
    table = records(
        *(served(seconds, session=session) for session, seconds in enumerate(prompts)),
        *(served(seconds, session=session, label=1) for session, seconds in enumerate(answers)),
    )
    everyone, answered = goodput_rows([ttft(2.0)], table)
    assert (everyone.good, everyone.per_second, everyone.share) == (6, 6 / 90, 6 / 8)
    assert (answered.about, answered.good, answered.per_second) == ("class 1", 3, 3 / 90)


def test_a_sample_of_the_same_turn_is_held_against_a_request() -> None:
    table = records(served(1, session=0), served(1, session=1))
    table.series = {"moved": Series("moved", [3.0, 9.0], [50.0, 51.0], [0, 1], [1.0, 1.0])}
    (everyone,) = goodput_rows([Objective("moved", "observation", "p90", "<", 5.0)], table)
    assert (everyone.good, everyone.share) == (1, 0.5)


def test_without_requests_an_observed_turn_counts_as_one() -> None:
    """Session 1 has turns 1 (9.0) and 2 (1.5) in the example, session 0 has turn 1 (5.0)."""
    limit = Objective("ttft", "observation", "p50", "<", 6.0)
    found = goodput_rows([limit], example_records())[0]
    assert (found.good, found.per_second, found.share) == (2, 2 / 37.5, 2 / 3)
    assert objective_rows([limit], example_records())[0].within == 2 / 3


def test_no_objective_no_goodput() -> None:
    assert goodput_rows([], records(served(1))) == []


def test_a_run_shows_them() -> None:
    """One request after the other, two steps each: first tokens after 1, 3, 5 and 7 seconds."""
    text = """
    stage gpu : vllm { num_gpu_blocks 99; max_model_len 999; max_num_seqs 1; async_scheduling false; cost 1; }
    workload { arrive batch(4); }
    session { request r on gpu (100, 2) class (serial > 1); }
    slo ttft p50 <= 3;
    slo ttft p99 < 7 for class 1;
    expect goodput == 0.1 && goodput_share == 0.5;
    run { horizon 20; }
    """
    report = serq.run(serq.compile(source=text))
    assert not report.answers.failed
    out = report.to_dict()
    assert [(r["objective"], r["within"], r["met"], r["low"]) for r in out["objectives"]] == [
        ("ttft p50 <= 3", 0.5, True, None),
        ("ttft p99 < 7 for class 1", 0.5, False, None),
    ]
    assert [(r["about"], r["good"]) for r in out["goodput"]] == [("all", 2), ("class 0", 2), ("class 1", 0)]
    assert list(report.objectives["met"]) == [True, False]
    assert list(report.goodput["share"]) == [0.5, 1.0, 0.0]
    assert "ttft p99 < 7 for class 1" in repr(report) and "goodput" in report._repr_html_()
