"""Doubling and bisection find where something stops to hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serq.errors import UsageError
from serq.studies.search import Bounds, largest


@given(
    limit=st.floats(0.001, 1000), start=st.floats(0.01, 100), tolerance=st.sampled_from([0.1, 0.01, 0.001])
)
def test_the_limit_lies_between_the_bounds(limit, start, tolerance):
    bounds = largest(lambda load: load <= limit, start, tolerance=tolerance)
    assert bounds.holds <= limit < bounds.breaks <= bounds.holds * (1 + tolerance)


def test_the_search_tries_few_loads_and_none_outside():
    tried = []
    bounds = largest(lambda load: tried.append(load) or load <= 5.3, 1.0, highest=8.0, tolerance=0.01)
    assert tried[:4] == [1.0, 2.0, 4.0, 8.0]
    # 4..8 is one octave; ln 2 / ln 1.01 = 69.7 widths, so 7 bisections
    assert len(tried) == 4 + 7 and bounds.holds <= 5.3 < bounds.breaks


def test_nothing_holds_and_nothing_breaks():
    assert largest(lambda _: False, 4.0, lowest=1.0) == Bounds(None, 1.0)
    assert largest(lambda _: True, 4.0, highest=10.0) == Bounds(10.0, None)
    assert largest(lambda _: False, 4.0) == Bounds(None, 4.0 / 2**20)
    assert largest(lambda load: load < 3, 2.0, lowest=2.0, highest=2.0) == Bounds(2.0, None)


@pytest.mark.parametrize("start", [1.0, 64.0])
def test_where_it_is_not_monotone_there_is_one_load_of_each_kind(start):
    bounds = largest(lambda load: load < 3 or 10 < load < 12, start)
    assert (bounds.holds < 3 or 10 < bounds.holds < 12) and bounds.breaks > bounds.holds


def test_a_load_that_decides_nothing_ends_the_search_downwards():
    assert largest(lambda load: False if load > 1 else None, 8.0) == Bounds(None, 2.0)
    with pytest.raises(UsageError, match="nothing decides"):
        largest(lambda _: None, 1.0)
