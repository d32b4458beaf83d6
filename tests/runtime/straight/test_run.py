"""Straight programs, with figures worked out by hand, and what is left where a run ends early."""

from __future__ import annotations

import pytest

import serq
from serq.errors import RunError
from serq.runtime.records import Records
from serq.runtime.simulation import Simulation, simulate
from tests.fuzz.fast_steps import recorded


def text(
    known: str,
    decode: str,
    *,
    kv: str = "cap 1000; block 16;",
    slots: int = 8,
    cost: str = "1",
    arrive: str = "batch(1)",
    run: str = "horizon 100;",
    members: int = 1,
) -> str:
    family, index = (f"[{members}]", "[i]") if members > 1 else ("", "")
    return f"""
    pool slots{family} {{ cap {slots}; admit via gpu; }}
    pool kv{family} {{ {kv} preempt lifo; }}
    stage gpu{family} : step {{ budget 64; memory kv; cost {cost}; }}
    workload {{ arrive {arrive}; init {{ set i = serial - {members} * floor(serial / {members}); }} }}
    session {{
      set known = {known};
      hold slots{index} (1), kv{index} (known) {{
        set known = max(known, computed + 1);
        run gpu{index} prefill (known) growing kv{index};
        observe ttft = now;
        run gpu{index} decode ({decode}) growing kv{index};
      }}
      observe e2e = now;
    }}
    run {{ {run} }}
    """


def runs_straight(source: str) -> Records:
    """The records of ``source``, which runs in the loop of straight programs; equal to those of the walk."""
    program = serq.compile(source=source)
    settings = program.ir.run
    horizon, warmup, arrivals = settings.horizon, settings.warmup, settings.arrivals
    assert horizon is not None
    run = Simulation(program.ir, seed=1, horizon=horizon, warmup=warmup, arrivals=arrivals, trace=None)
    assert run._straight is not None
    assert recorded(program, "auto")[0] == recorded(program, "reference")[0]
    try:
        return simulate(program.ir)
    except RunError as error:
        assert error.records is not None
        return error.records


def test_a_prompt_longer_than_the_budget() -> None:
    """100 tokens take iterations of 64 and 36, then three decodes: 0.1 s and 0.01 s a token."""
    records = runs_straight(text("100", "3", cost="0.1 + 0.01 * tokens"))
    assert records.series["ttft"].values.tolist() == pytest.approx([0.74 + 0.46])
    assert records.series["e2e"].values.tolist() == pytest.approx([1.2 + 3 * 0.11])
    assert records.stages[0].iterations == 5


def test_who_was_admitted_last_gives_way() -> None:
    """Two blocks for two prompts of one block each: the first to decode needs a second one.

    Iterations take one each. Both have prefilled at 1. The second gives way; the first decodes from 1 to 5;
    the second prefills 17 tokens until 6 and decodes until 10.
    """
    records = runs_straight(text("16", "4", kv="cap 32; block 16;", arrive="batch(2)"))
    assert records.series["ttft"].values.tolist() == [1.0, 1.0, 6.0]
    assert records.series["e2e"].values.tolist() == [5.0, 10.0]
    kv = records.pools[1]
    assert (kv.preemptions, kv.admissions, records.stages[0].iterations) == (1, 3, 10)


def test_what_a_preempted_session_leaves_gives_way() -> None:
    """As above, but whole blocks of what was computed stay in the cache.

    Here the block that the victim leaves gives way at once to the second one of the first session, so nothing
    is found, and the times are the same.
    """
    source = text("16", "4", kv="cap 32; block 16;", arrive="batch(2)")
    kept = source.replace("kv (known) {", "kv (known) reuse (known) {").replace(
        "      }\n      observe e2e", "      } cache (1000)\n      observe e2e"
    )
    assert kept.count("cache") == 1
    records = runs_straight(kept)
    assert records.series["e2e"].values.tolist() == [5.0, 10.0]
    assert records.pools[1].evicted_units > 0.0


def test_what_ended_sessions_left_gives_way_to_the_next() -> None:
    """Sessions one after the other, 18 tokens each in blocks of 16: one whole block of each stays.

    Two blocks of four are taken while one runs: the fourth is the first for whom a block must give way.
    """
    source = text("16", "2", kv="cap 64; block 16;", slots=1, arrive="batch(4)").replace(
        "      }\n      observe e2e", "      } cache (1000)\n      observe e2e"
    )
    records = runs_straight(source)
    assert records.series["e2e"].values.tolist() == [3.0, 6.0, 9.0, 12.0]
    assert records.pools[1].evicted_units == 16.0


def test_slots_are_given_in_the_order_of_arrival() -> None:
    """One slot, a prefill and three decodes of one each: the third ends at 12, having waited 8."""
    records = runs_straight(text("8", "3", slots=1, arrive="batch(3)"))
    assert records.series["e2e"].values.tolist() == [4.0, 8.0, 12.0]
    assert records.pools[0].mean_wait == pytest.approx((0 + 4 + 8) / 3)


def test_runs_without_tokens_take_no_time() -> None:
    records = runs_straight(text("8", "0", arrive="batch(2)"))
    assert records.series["ttft"].values == records.series["e2e"].values


def test_decodes_grow_by_themselves_until_the_next_arrival() -> None:
    """Iterations take one each. The first session, of 5.5, holds 1 unit, 2 from 6.5 on, ..., 10 from 14.5 on.

    It ends at 15.5. That of 11 is admitted when an iteration ends, at 11.5, and ends at 21.5.
    """
    source = text("1", "9", kv="cap 1000;", arrive="renewal(5.5)", run="horizon 30; arrivals 2;")
    records = runs_straight(source)
    assert records.series["e2e"].times.tolist() == [15.5, 21.5]
    assert records.pools[1].mean_used == pytest.approx(2 * sum(range(1, 11)) / 21.5)


def test_who_waits_when_time_is_over_stands_in_the_queue() -> None:
    records = runs_straight(text("8", "50", slots=1, arrive="batch(3)", run="horizon 20;"))
    assert records.pools[0].mean_queue == 2.0 and records.ended == 0 and not records.warnings


def test_warm_up_ends_between_two_ends() -> None:
    records = runs_straight(text("1", "30", kv="cap 1000;", run="horizon 30; warmup 10.5;"))
    units = [(11 - 10.5) * 11, *range(12, 31)]
    assert records.pools[1].mean_used == pytest.approx(sum(units) / 19.5)


@pytest.mark.parametrize("members", [1, 3])
def test_a_broken_rule_leaves_everything_as_it_was_at_that_instant(members: int) -> None:
    """Session 5 decodes -1 tokens when others end quietly at the same instant."""
    source = text(
        "8", "4 < serial ? -1 : 40", cost="0.25", arrive="renewal(0.5)", run="horizon 60;", members=members
    )
    records = runs_straight(source)
    assert records.stopped is not None and "not an amount" in records.stopped


def test_no_time_passes_is_noticed() -> None:
    """An iteration without tokens that costs nothing: who is preempted goes round at one instant."""
    source = text("8", "16", kv="cap 20;", cost="tokens > 0 ? 0.5 : 0", arrive="batch(3)", run="horizon 60;")
    runs_straight(source)
