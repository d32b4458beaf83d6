"""Shapes of steps as text: what is rounded, what stays, and that nothing is lost on the way back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serq.kernels.step_batch import BatchRow
from serq.kernels.step_shape import canonical_rows, parse_shape, shape_text


def decode(computed: int, query: int = 1, drafts: int = 0) -> BatchRow:
    return BatchRow("r", query, computed, 10, drafts, True)


def verify(computed: int, drafts: int) -> BatchRow:
    return decode(computed, 1 + drafts, drafts)


def prefill(query: int, computed: int = 0) -> BatchRow:
    return BatchRow("r", query, computed, query + computed + 7, 0, False)


def test_contexts_are_rounded_up_and_decodes_come_first() -> None:
    rows = (prefill(300), decode(255), decode(256), prefill(64, 100), decode(500, 3, 2))
    text = shape_text(canonical_rows(rows, 128))
    # 255 + 1 keys fill two blocks of 128, 257 and 164 begin another one; a fresh prompt has the keys it has.
    assert text == "d1+2@512 d1@384 d1@256 p300@300 p64@256"


def test_equal_rows_are_counted() -> None:
    rows = canonical_rows([decode(8191)] * 23 + [prefill(3968, 4224)], 1)
    assert shape_text(rows) == "d1@8192*23 p3968@8192"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.builds(decode, st.integers(1, 900)),
            st.builds(prefill, st.integers(1, 300), st.integers(0, 900)),
            st.builds(verify, st.integers(1, 99), st.integers(1, 3)),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from((1, 16, 128)),
)
def test_a_text_is_its_step(rows: list[BatchRow], step: int) -> None:
    canonical = canonical_rows(rows, step)
    assert parse_shape(shape_text(canonical)).rows == canonical
    assert canonical_rows(canonical, step) == canonical
    assert sum(row.query for row in canonical) == sum(row.query for row in rows)
    for row in canonical:
        assert not row.computed or (row.computed + row.query) % step == 0


@pytest.mark.parametrize("text", ["", "x1@2", "d1@0", "d0@4", "p5@4", "d1", "p1@2*0 "])
def test_what_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"row|fewer keys"):
        parse_shape(text)


def test_a_step_of_nothing_cannot_round() -> None:
    with pytest.raises(ValueError, match="0 tokens"):
        canonical_rows([decode(3)], 0)
