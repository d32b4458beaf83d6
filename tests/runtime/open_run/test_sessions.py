"""Sessions that come while engines run: in the place of others, or again after a pause."""

from __future__ import annotations

import pytest

from tests.fuzz.fast_path import columns
from tests.runtime.open_run.test_open_runs import SYNC, run


def test_the_next_arrives_when_one_ends() -> None:
    """Two slots, two clients, steps of 10: 0 ends at 20, 1 at 30; 2 comes at 20, and is in the step after."""
    records = run(
        "request r on npu (32, serial == 1 ? 3 : 2); observe e2e = e2e(r);",
        arrive="closed(2)",
        settings="horizon 45; warmup 15;",
    )
    assert records.clock_reason is None
    assert list(records.requests.sent) == [0, 0, 20, 30, 40]
    assert list(records.requests.finish)[:3] == [20, 30, 40]
    assert list(records.engines[0].table.tokens) == [64, 2, 33, 33]
    assert list(records.series["e2e"].sessions) == [0, 1, 2]
    assert records.mean_live == 2.0
    assert records.events == 5  # four steps, and the end of the warm-up


def test_who_comes_to_a_busy_engine_before_the_end_is_counted() -> None:
    """Session 0 ends at engine 0 at 10; session 2 comes to engine 1, whose step takes till the horizon."""
    records = run(
        "request r on npu[serial > 0] (serial == 1 ? 100 : 10, 1);",
        arrive="closed(2)",
        members="[2]",
        cost="tokens",
        settings="horizon 90;",
    )
    assert records.clock_reason is None
    assert [row.mean_number for row in records.stages] == [10 / 90, (90 + 80) / 90]


@pytest.mark.parametrize("options", [SYNC, "enable_prefix_caching false;"])
def test_engines_whose_clients_change_places_run_together(options: str) -> None:
    """Session i goes to engine i mod 3, wherever the one was whose place it takes."""
    found = [
        run(
            "request r on npu[serial - 3 * floor(serial / 3)] (20 + serial, 3 + 2 * (serial > 9));"
            "observe ttft = ttft(r);",
            arrive="closed(7)",
            options=options,
            members="[3]",
            cost="3 + 0.37 * tokens + 0.01 * context_decode",
            settings="horizon 900; warmup 60;",
            mode=mode,
        )
        for mode in ("auto", "planned", "reference")
    ]
    assert found[0].clock_reason is None
    assert found[0].ended > 50
    assert columns(found[0]) == columns(found[1]) == columns(found[2])


def test_a_conversation_goes_on_after_a_pause() -> None:
    """Steps of 10. The first request ends at 20, the second is sent at 27 with 32 + 2 + 8 tokens.

    Of these two whole blocks are cached: the 32 first tokens; 10 are computed. It ends with its third token.
    """
    records = run(
        "request r on npu (32, 2); run think (7); request r on npu (8, 3) follows r; observe e2e = e2e(r);"
        "observe there = queue(npu);",
        arrive="batch(1)",
        options="async_scheduling false;",
        before="stage think : delay;",
        settings="horizon 100;",
    )
    assert records.clock_reason is None
    assert list(records.requests.sent) == [0, 27]
    assert list(records.requests.finish) == [20, 57]
    assert list(records.requests.prompt_tokens) == [32, 42]
    assert list(records.requests.cached_tokens) == [0, 32]
    assert list(records.engines[0].table.tokens) == [32, 1, 10, 1, 1]
    assert list(records.series["e2e"].values) == [30]
    assert list(records.series["there"].values) == [0]
    assert records.events == 6  # five steps, and the end of the pause
    assert records.mean_live == 0.57
    assert [row.mean_number for row in records.stages] == [0.07, 0.5]


def test_a_conversation_is_known_to_the_engine_that_computed_it() -> None:
    """Turns 0 and 2 go to engine 0, turn 1 to engine 1, which knows nothing of the conversation.

    Engine 0 then finds the 48 whole tokens of the 33 + 1 + 15 + 1 that it has of turns 0 and 1: only the 32
    of turn 0 were computed there.
    """
    records = run(
        "request r on npu[0] (33, 1); run think (1); request r on npu[1] (15, 1) follows r; run think (1);"
        "request r on npu[0] (20, 1) follows r;",
        arrive="batch(1)",
        options="async_scheduling false;",
        members="[2]",
        before="stage think : delay;",
    )
    assert records.clock_reason is None
    assert list(records.requests.prompt_tokens) == [33, 49, 70]
    assert list(records.requests.cached_tokens) == [0, 0, 32]


@pytest.mark.parametrize("mode", ["auto", "planned", "reference"])
def test_who_looks_at_an_engine_whose_step_ends_sees_who_waits_there(mode: str) -> None:
    """One slot, steps of 10. Client 0 ends at 10 and client 2 comes; client 1, who waited, is not let in yet.

    So 2 sees nobody run and one wait. Had the engine formed its next step for that look, one would run.
    """
    records = run(
        "set seen = 10 * running(npu) + waiting(npu); request r on npu (32, 1); observe seen = seen;",
        arrive="closed(2)",
        options=SYNC + "max_num_seqs 1;",
        settings="horizon 35;",
        mode=mode,
    )
    assert list(records.series["seen"].values) == [0, 1, 1]
    assert list(records.engines[0].table.formed) == [0, 10, 20]
    assert mode != "auto" or records.clock_reason is None
