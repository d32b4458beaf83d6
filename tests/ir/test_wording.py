"""Words of messages and reports."""

from __future__ import annotations

import pytest

from serq.ir.wording import counted


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((1, "time"), "1 time"), ((0, "time"), "0 times"), ((2000, "request", "2,000"), "2,000 requests")],
)
def test_nouns_follow_their_number(arguments: tuple[int, str], expected: str) -> None:
    assert counted(*arguments) == expected
