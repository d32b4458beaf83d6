"""The numbers of a request: read by the same code whatever engine they are sent to, compiled or not."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serq.errors import RunError
from serq.runtime.serving.numbers import asked_lengths, prefix_of, whole


@given(
    st.floats()
    | st.integers(-3, 2**53 + 1).map(float)
    | st.sampled_from([0.0, -0.0, 2.0**53, inf, -inf, nan]),
    st.sampled_from([0.0, 1.0, -inf]),
)
def test_a_whole_number_is_one_of_which_a_float_knows_the_neighbours(value: float, lowest: float) -> None:
    is_whole = abs(value) < inf and Fraction(value).denominator == 1
    if is_whole and lowest <= value < 2**53:
        number = whole(value, "n", lowest)
        assert (number, type(number)) == (int(Fraction(value)), int)
    else:
        with pytest.raises(RunError, match="is not a whole number") as caught:
            whole(value, "n", lowest)
        assert caught.value.code == "not-whole"


@pytest.mark.parametrize(
    ("value", "lowest", "message"),
    [
        (2.5, 0, "n: 2.5 is not a whole number, at least 0"),
        (0.0, 1, "n: 0 is not a whole number, at least 1"),
        (nextafter(7.0, 8.0), -inf, "n: 7 is not a whole number"),
        (nan, 1, "n: nan is not a whole number, at least 1"),
    ],
)
def test_what_is_said_of_another(value: float, lowest: float, message: str) -> None:
    with pytest.raises(RunError) as caught:
        whole(value, "n", lowest)
    assert caught.value.message == message


def test_lengths_and_prefixes_that_are_not_written() -> None:
    assert asked_lengths(5.0, 0.0, None) == (0, 5, None)
    assert asked_lengths(5.0, 8.0, 6.0) == (8, 8, 6)
    assert prefix_of(None) is None
    assert prefix_of((1.5, 40.0)) == (1.5, 40)
