"""Figures of numbers in parts are those of the same numbers in a list."""

from __future__ import annotations

from dataclasses import astuple
from math import inf, nan

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from serq.results.run_folder.stored_values import StoredValues
from serq.results.statistics import summarize, summarize_samples

FLOATS = st.one_of(
    st.floats(width=64), st.sampled_from([0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, inf, -inf, nan, 2.5])
)


def stored(parts: list[list[float]]) -> StoredValues:
    arrays = [numpy.array(part, dtype=numpy.float64) for part in parts]
    return StoredValues.of(lambda part: arrays[part], len(arrays))


def same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(FLOATS, max_size=30), min_size=1, max_size=6))
def test_summaries(parts: list[list[float]]) -> None:
    values = [value for part in parts for value in part]
    found, expected = summarize_samples(stored(parts)), summarize(values)
    assert all(map(same, astuple(found), astuple(expected))), (found, expected)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(FLOATS, max_size=9), min_size=1, max_size=4))
def test_ranks(parts: list[list[float]]) -> None:
    values = [value for part in parts for value in part]
    numbers = sorted(value for value in values if value == value)
    ordered = numbers + [nan] * (len(values) - len(numbers))
    ranks = range(len(values))
    assert all(map(same, stored(parts).at_ranks(ranks), ordered))


def test_a_part_of_several_parts() -> None:
    values = stored([[0, 1, 2], [], [3], [4, 5]])
    for start in range(7):
        for stop in range(start, 7):
            assert list(values.part(start, stop)) == list(range(6))[start:stop]
            assert len(values.part(start, stop)) == len(range(6)[start:stop])
    assert list(values.part(1, 6).part(1, 4)) == [2, 3, 4]
