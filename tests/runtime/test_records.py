"""Records hold whole samples, whatever stopped the run."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from serq.runtime.records import Series
from serq.runtime.request_records import REQUEST_COLUMNS, RequestTable, add_all


def test_a_sample_cut_by_an_interrupt_is_dropped() -> None:
    series = Series("ttft", [1.0, 2.0, 3.0], [0.5, 1.5], [0, 1], [1.0])
    series.trim()
    assert (series.values, series.times, series.sessions, series.turns) == ([1.0], [0.5], [0], [1.0])


def test_a_request_is_opened_in_every_column() -> None:
    table = RequestTable()
    assert [table.open(7, 1, "r", 0, 2.0, 0.5, 100), table.open(8, 1, "r", 0, 2.0, 0.5, 100)] == [0, 1]
    assert {name: len(getattr(table, name)) for name in REQUEST_COLUMNS} == dict.fromkeys(REQUEST_COLUMNS, 2)


def test_a_column_equals_a_list_of_the_same_numbers() -> None:
    series = Series("x")
    series.values.extend([1.5, 2.0])
    assert series.values == [1.5, 2.0] and series.values != [1.5] and series.values != (1.5, 2.0)
    assert series.values == array("d", [1.5, 2.0])


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.floats() | st.integers(-9, 9)))
def test_values_appended_at_once_are_those_of_one_by_one(integers: list[int], doubles: list[float]) -> None:
    for kind, values in (("q", integers), ("d", doubles)):
        column, one_by_one = array(kind, [1]), array(kind, [1])
        add_all(column, tuple(values))
        add_all(column, values)
        for value in values * 2:
            one_by_one.append(value)
        assert column.tobytes() == one_by_one.tobytes()
