"""Whether anybody waits long is told without sorting, and as the sorted waits tell it."""

from __future__ import annotations

from math import ceil, isnan, nan

from hypothesis import given, settings
from hypothesis import strategies as st

from serq.runtime.request_records import RequestTable
from serq.runtime.serving.starvation import (
    InMemoryWaits,
    anybody_waits_long,
    starvation_in_memory,
    starvation_warning,
)

Row = tuple[int, float, float, float]
"""Engine, and when a request was taken in, admitted and let go of."""

NOW = 50.0


def table_of(rows: list[Row]) -> RequestTable:
    table = RequestTable()
    for number, (engine, queued, scheduled, finish) in enumerate(rows):
        place = table.open(number, 0, "r", engine, nan, 0.0, 1)
        table.queued[place], table.scheduled[place], table.finish[place] = queued, scheduled, finish
    return table


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Some 250 requests of three engines, most of which wait about equally long; ties are frequent."""
    random = draw(st.randoms(use_true_random=False))
    usual = draw(st.sampled_from([(0.0,), (0.0, 1.0), (1.0, 2.0, 3.0), (0.1, 0.3, 0.7), (1.0, 1.0, 10.0)]))
    rare = draw(st.sampled_from([(1.0,), (7.0, 10.0), (1.0, 10.0, 10.000000000000002), (30.0, nan)]))
    unusual = draw(st.sampled_from([0, 1, 2, 3, 4, 30]))
    count = draw(st.sampled_from([0, 1, 99, 100, 101, 199, 200, 250]))
    waits = [random.choice(usual) for _ in range(count)] + [random.choice(rare) for _ in range(unusual)]
    random.shuffle(waits)
    engines = draw(st.sampled_from([(0,), (0, 0, 0, 0, 0, 1, 2)]))
    never = draw(st.sampled_from([0.0, 0.02]))
    out = []
    for wait in waits:
        queued = nan if random.random() < never else random.choice((0.0, 0.0, 0.1, 5.0, 45.0))
        scheduled = queued + wait  # NaN: it was never admitted
        finish = nan if random.random() < 0.1 else max(queued, 0.0 if isnan(wait) else scheduled) + 2.0
        out.append((random.choice(engines), queued, scheduled, finish))
    return out


def by_sorting(rows: list[Row], engine: int) -> bool:
    """From the definition: the longest wait of anybody against the 99th hundredth of the sorted ones."""
    mine = [row[1:] for row in rows if row[0] == engine and not isnan(row[1])]
    admitted = sorted(scheduled - queued for queued, scheduled, _ in mine if not isnan(scheduled))
    others = [
        (NOW if isnan(finish) else finish) - queued for queued, scheduled, finish in mine if isnan(scheduled)
    ]
    if len(admitted) < 100:
        return False
    return max(admitted + others) > 10.0 * admitted[ceil(0.99 * len(admitted)) - 1]


@settings(max_examples=300, deadline=None)
@given(rows())
def test_the_quick_decision_is_that_of_the_sorted_waits(rows: list[Row]) -> None:
    table = table_of(rows)
    for engine in range(3):
        assert anybody_waits_long(table, engine, NOW) == by_sorting(rows, engine)
        quick = starvation_in_memory(table, engine, "`npu`", "npu", NOW)
        assert quick == starvation_warning(InMemoryWaits(table, engine), "`npu`", "npu", NOW)


def test_ten_times_the_quantile_is_not_over_it() -> None:
    """99 waits of 1 and one of 10; of 100 waits the 99th is the quantile."""
    usual = [(0, 0.0, 1.0, 2.0)] * 99
    assert not anybody_waits_long(table_of([*usual, (0, 0.0, 10.0, 11.0)]), 0, NOW)
    assert anybody_waits_long(table_of([*usual, (0, 0.0, 10.5, 11.0)]), 0, NOW)
    assert not anybody_waits_long(table_of([*usual[1:], (0, 0.0, 10.5, 11.0)]), 0, NOW)  # too few to say
    assert not anybody_waits_long(table_of([*usual[1:], *[(0, 0.0, 10.5, 11.0)] * 2]), 0, NOW)


def test_who_was_never_admitted_waits_too() -> None:
    """Till its end, or till now."""
    usual = [(0, 0.0, 1.0, 2.0)] * 100
    assert anybody_waits_long(table_of([*usual, (0, 39.0, nan, nan)]), 0, NOW)
    assert not anybody_waits_long(table_of([*usual, (0, 40.0, nan, nan)]), 0, NOW)
    assert not anybody_waits_long(table_of([*usual, (0, 30.0, nan, 40.0)]), 0, NOW)
    assert anybody_waits_long(table_of([*usual, (0, 30.0, nan, 40.5)]), 0, NOW)
    assert not anybody_waits_long(table_of([*usual, (1, 30.0, nan, 40.5), (0, nan, nan, nan)]), 0, NOW)
