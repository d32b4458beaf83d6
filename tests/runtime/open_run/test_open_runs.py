"""Runs ahead of the clock: what they record by hand, and why others are on the clock."""

from __future__ import annotations

from math import isnan
from typing import Any

import pytest

from serq import api
from serq.errors import RunError
from serq.runtime.open_run.leaving import ClockReason
from serq.runtime.records import Records
from serq.runtime.simulation import simulate
from tests.fuzz.fast_path import columns

ENGINE = "stage npu{members} : vllm {{ num_gpu_blocks {blocks}; max_model_len 200; {options} cost {cost}; }}"
SYNC = "async_scheduling false; enable_prefix_caching false;"


def run(
    session: str,
    *,
    arrive: str = "batch(3)",
    options: str = SYNC,
    cost: str = "10",
    blocks: int = 100,
    members: str = "",
    settings: str = "horizon 5000;",
    before: str = "",
    mode: Any = "auto",
) -> Records:
    """The records of a small program."""
    stage = ENGINE.format(members=members, blocks=blocks, options=options, cost=cost)
    text = f"{before} {stage} workload {{ arrive {arrive}; }} session {{ {session} }} run {{ {settings} }}"
    return simulate(api.compile(source=text).ir, engine=mode)


ASK = "request r on npu (32, 4); observe ttft = ttft(r); observe e2e = e2e(r);"


def test_three_requests_at_once_take_four_steps_of_ten() -> None:
    """All prompts fit the first step; each of the next three steps gives everybody a token."""
    records = run(ASK)
    assert records.clock_reason is None
    (engine,) = records.engines
    assert list(engine.table.end) == [10.0, 20.0, 30.0, 40.0]
    assert list(engine.table.tokens) == [96, 3, 3, 3]
    assert list(engine.table.prefill_tokens) == [96, 0, 0, 0]
    assert list(engine.table.free_blocks) == [99 - 6, 99 - 9, 99 - 9, 99 - 9]  # 33 tokens need a third block
    assert list(records.series["ttft"].values) == [10.0] * 3
    assert list(records.series["e2e"].values) == [40.0] * 3
    assert records.events == 4
    assert records.mean_live == 3 * 40 / 5000
    assert engine.mean_kv_usage == pytest.approx((6 * 10 + 9 * 30) / 99 / 5000)


def test_with_a_step_in_flight_tokens_come_a_step_after_their_forming() -> None:
    """Step 1 is formed together with step 0, every other when the one before the last ends."""
    records = run(ASK, options="enable_prefix_caching false;", arrive="batch(1)")
    assert records.clock_reason is None
    table = records.engines[0].table
    assert list(table.end) == [10.0, 20.0, 30.0, 40.0]
    assert list(table.formed) == [0.0, 0.0, 10.0, 20.0]
    assert list(table.start) == [0.0, 10.0, 20.0, 30.0]


def test_the_last_to_come_gives_way_where_blocks_lack() -> None:
    """Five blocks, two requests of 32 + 20 tokens: both get two blocks and then want a third, at 33 tokens.

    The first takes the only one that is left, the second gives way with its 32 computed tokens. It is resumed
    when the first has ended, with its 33 known tokens, and ends 19 steps later.
    """
    records = run("request r on npu (32, 20);", arrive="batch(2)", blocks=6)
    assert records.clock_reason is None
    (engine,) = records.engines
    victims = engine.victims
    assert list(victims.request) == [1]
    assert list(victims.needed_by) == [1]
    assert list(victims.lost_tokens) == [32]
    assert list(victims.time) == [10.0]
    assert list(victims.resumed) == [200.0]
    assert list(victims.recovered) == [210.0]
    assert list(records.requests.finish) == [200.0, 390.0]
    assert list(records.requests.preemptions) == [0, 1]


def test_a_shared_prefix_is_found_in_the_cache() -> None:
    """The second request comes when the first has ended: 3 of the 4 whole blocks of 70 tokens are shared."""
    records = run(
        "request r on npu (70, 2) prefix (1, 50);",
        arrive="renewal(100)",
        options="async_scheduling false;",
        settings="horizon 250;",
    )
    assert records.clock_reason is None
    assert list(records.requests.cached_tokens) == [0, 48]
    assert list(records.engines[0].table.tokens) == [70, 1, 22, 1]
    assert records.engines[0].prefix_hit_rate == 48 / 140


def test_what_has_not_ended_at_the_horizon_is_written_down_as_it_stands() -> None:
    """One slot, ends every 10: at 25 the first has two tokens, and the second waits."""
    records = run(
        "request r on npu (32, 9);",
        arrive="batch(2)",
        options=SYNC + "max_num_seqs 1;",
        settings="horizon 25;",
    )
    table = records.requests
    assert list(table.generated) == [2, 0]
    assert table.last_token[0] == 20.0
    assert list(table.last_step) == [1, -1]
    assert isnan(table.scheduled[1])
    assert list(records.engines[0].queue.outcome) == ["admitted", ""]


def test_a_prompt_that_leaves_no_room_is_rejected_and_its_session_goes_on() -> None:
    records = run("request r on npu (200, 9); observe rejected = rejected(r);", arrive="batch(2)")
    assert records.clock_reason is None
    assert list(records.series["rejected"].values) == [1.0, 1.0]
    assert records.ended == 2
    assert list(records.requests.finish) == [0.0, 0.0]


def test_who_gives_way_with_a_step_in_flight_still_gets_its_token() -> None:
    """As above, asynchronous: step 1, in which both want a third block, is formed at 0 with step 0.

    The second request gives way while step 0 computes its prompt. Its first token comes at 10 all the same.
    """
    records = run(
        "request r on npu (32, 20);",
        arrive="batch(2)",
        blocks=6,
        options="enable_prefix_caching false; scheduler_reserve_full_isl false;",
    )
    assert records.clock_reason is None
    victims = records.engines[0].victims
    assert list(victims.request) == [1]
    assert list(victims.time) == [0.0]
    assert list(victims.lost_tokens) == [32]
    assert list(records.requests.first_token) == [10.0, 10.0]
    assert records.requests.finish[0] == 200.0
    assert list(records.requests.generated) == [20, 20]


def test_an_end_that_is_not_foreseen_costs_one_more_share() -> None:
    """The model stops at token 2, below max_tokens: step 2 was formed by then, and brings nothing."""
    records = run(
        "request r on npu (32, 2) max_tokens (9);", arrive="batch(1)", options="enable_prefix_caching false;"
    )
    assert records.clock_reason is None
    table = records.engines[0].table
    assert list(table.end) == [10.0, 20.0, 30.0]
    assert list(table.tokens) == [32, 1, 1]
    assert list(records.requests.finish) == [20.0]


def test_a_long_request_that_has_aged_is_admitted_before_short_ones() -> None:
    """One slot, each request takes 20, so that steps are formed at 7, 17, 27, …; four come at 7, 14, 21, 28.

    The long one comes at 14 and is taken in when a step ends at 17; at 67 it has waited 50 there.
    """
    records = run(
        "request r on npu (serial == 1 ? 90 : 10, 2);",
        arrive="renewal(7)",
        options=SYNC
        + "max_num_seqs 1; waiting short_request_first { threshold 50; long_max_wait_ms 50000; }",
        settings="horizon 150;",
    )
    assert records.clock_reason is None
    assert set(records.engines[0].queue.lane) == {"short", "long"}
    assert records.requests.scheduled[1] == 67.0
    assert list(records.requests.scheduled)[:4] == [7.0, 67.0, 27.0, 47.0]


def test_who_sends_nothing_takes_no_sample_before_those_that_ended_earlier() -> None:
    """Arrivals at 5, 10, 15, …; only session 0 sends, and ends at 14.5; the others note when they came."""
    records = run(
        "branch (serial == 0) { request r on npu (32, 1); } observe over = now;",
        arrive="renewal(5)",
        cost="9.5",
        settings="horizon 22;",
    )
    assert records.clock_reason is None
    assert list(records.series["over"].sessions) == [1, 0, 2, 3]
    assert list(records.series["over"].times) == [10.0, 14.5, 15.0, 20.0]


def test_attributes_choices_and_draws_are_read_after_the_request_as_before_it() -> None:
    """Sessions 0 to 2 send 32, 33, 34 tokens in one step of 10; what they note is computed here by hand."""
    records = run(
        "turn; set turn_no = 7; set p = 32 + serial; request r on npu (p, 1);"
        "set p = p + generated(r); observe p = p; choose k in 4 by (abs(k - serial)); observe k = k;"
        "branch (serial == 1) { observe one = ttft(r); end; } observe rest = ~det(p);"
    )
    assert records.clock_reason is None
    values = {name: list(series.values) for name, series in records.series.items()}
    assert values == {"p": [33, 34, 35], "k": [0, 1, 2], "one": [10], "rest": [33, 35]}
    assert list(records.series["p"].turns) == [7, 7, 7]
    assert list(records.series["rest"].sessions) == [0, 2]


def test_requests_in_both_ways_of_a_branch_each_go_on_with_what_follows() -> None:
    records = run(
        "branch (serial < 2) { request a on npu (32, 2); observe way = 1; } else "
        "{ branch (serial == 2) { request b on npu (16, 3); observe way = 2; } else { end; } }"
        "observe over = now;",
        arrive="batch(4)",
    )
    assert records.clock_reason is None
    assert list(records.series["way"].values) == [1, 1, 2]
    assert list(records.series["over"].values) == [20, 20, 30]
    assert records.requests.handle == ["a", "a", "b"]
    assert records.ended == 4


@pytest.mark.parametrize("mode", ["auto", "planned", "reference"])
def test_half_a_token_of_a_prefix_is_refused_where_nothing_is_cached(mode: str) -> None:
    with pytest.raises(RunError, match=r"`prefix`: 2\.5 is not a whole number"):
        run("request r on npu (32, 1) prefix (1, serial + 2.5);", mode=mode)


PLAIN = "request r on npu (40, 30);"


@pytest.mark.parametrize(
    ("reason", "settings"),
    [
        ("ASKED", {"session": PLAIN, "mode": "planned"}),
        ("CLOSED", {"session": f"branch (serial > 3) {{ end; }} {PLAIN}", "arrive": "closed(2)"}),
        ("CLOSED", {"session": "request r on npu (serial == 1 ? 200 : 9, 3);", "arrive": "closed(2)"}),
        ("GAUGES", {"session": PLAIN, "before": "gauge busy = running(npu);"}),
        ("LOOKS", {"session": f"{PLAIN} observe left = free(room);", "before": "pool room { cap 9; }"}),
        ("LOOKS", {"session": f"branch (free(room) > 3) {{ end; }} {PLAIN}",
                   "before": "pool room { cap 9; }"}),
        ("STATEMENTS", {"session": f"hold room (1) {{ {PLAIN} }}", "before": "pool room { cap 9; }"}),
        ("STATEMENTS", {"session": f"run wire (3); {PLAIN}", "before": "stage wire : ps(1);"}),
        ("CLAUSES", {"session": f"{PLAIN} request r on npu (40, 30) follows r prefix (1, 16);"}),
        ("CLAUSES", {"session": "request r on npu (40, 30) abort after (55);"}),
        ("ENGINE", {"session": PLAIN, "options": "waiting priority;"}),
        ("ENGINE", {"session": PLAIN, "options": "waiting by (kv_usage(npu));"}),
        ("ENGINE", {"session": PLAIN, "cost": "10 + ~exp(1)"}),
        ("STOP", {"session": "request r on npu (40, 30) max_tokens (5) min_tokens (20);"}),
        ("STOP", {"session": "request r on npu (40, 30) max_tokens (50);", "options": "",
                  "arrive": "poisson(0.01)", "settings": "horizon 5000; arrivals 3;"}),
        ("ORDER", {"session": "request r on npu (serial == 1 ? 5 : 180, 3);", "arrive": "batch(4)",
                   "options": SYNC + "max_num_batched_tokens 16; max_num_seqs 8;"
                                     "long_prefill_token_threshold 8;"}),
        ("TIE", {"session": f"branch (queue(npu) > 3) {{ end; }} {PLAIN}", "arrive": "renewal(50)"}),
        ("TIE", {"session": "request r on npu (serial == 1 ? 200 : 40, 30); observe x = now;",
                 "arrive": "renewal(50)"}),
        ("NO_TIME", {"session": PLAIN, "cost": "0.00000000000001", "arrive": "renewal(4000)"}),
        ("NOT_DRAINED", {"session": PLAIN, "arrive": "poisson(1)", "settings": "horizon 50; arrivals 2;"}),
        ("TIE", {"session": f"{PLAIN} run think (50);", "before": "stage think : delay;",
                 "arrive": "renewal(31)", "settings": "horizon 700; warmup 331;"}),
        ("ERROR", {"session": "request r on npu (190, 3);", "blocks": 6}),
    ],
)  # fmt: skip
def test_every_reason_to_be_on_the_clock_is_met(reason: str, settings: dict[str, Any]) -> None:
    try:
        found = run(**settings)
    except RunError as error:
        assert error.records is not None
        found = error.records
    assert found.clock_reason == ClockReason[reason].value


def test_reasons_that_no_small_program_meets_are_few() -> None:
    elsewhere = {"ROWS", "NO_ENGINES", "AGAIN", "NO_TOKENS"}
    marks = test_every_reason_to_be_on_the_clock_is_met.pytestmark  # type: ignore[attr-defined]
    named = {case[0] for mark in marks for case in mark.args[1]}
    assert named | elsewhere == {reason.name for reason in ClockReason}


def test_rows_and_programs_without_engines_are_on_the_clock() -> None:
    text = "stage think : delay; workload { arrive batch(1); } session { run think (3); } run { horizon 9; }"
    assert simulate(api.compile(source=text).ir).clock_reason == ClockReason.NO_ENGINES.value
    program = api.compile(
        source=ENGINE.format(members="", blocks=9, options="", cost="1")
        + f"workload {{ arrive batch(1); }} session {{ {PLAIN} }} run {{ horizon 900; }}"
    )
    assert simulate(program.ir, keep_rows=True).clock_reason == ClockReason.ROWS.value


@pytest.mark.parametrize("warmup", [0, 95, 100, 250])
@pytest.mark.parametrize("options", [SYNC, "", "async_scheduling false;"])
def test_ends_arrivals_and_warmup_at_one_instant_record_the_same(warmup: float, options: str) -> None:
    """Steps of 10, arrivals every 50: they coincide all the time."""
    found = [
        columns(
            run(
                "request r on npu[serial - 2 * floor(serial / 2)] (32 + serial, 9) prefix (2, 16);"
                "observe ttft = ttft(r);",
                arrive="renewal(50)",
                options=options,
                members="[2]",
                settings=f"horizon 600; warmup {warmup};",
                mode=mode,
            )
        )
        for mode in ("auto", "planned", "reference")
    ]
    assert found[0] == found[1] == found[2]
