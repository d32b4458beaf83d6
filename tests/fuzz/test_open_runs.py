"""A part of ``python -m tests.fuzz.open_runs``."""

from __future__ import annotations

import pytest

from tests.fuzz.open_programs import OpenProgram
from tests.fuzz.open_runs import compared


@pytest.mark.parametrize("first", range(5000, 5200, 20))
def test_runs_ahead_of_the_clock_record_what_walks_record(first: int) -> None:
    ahead = 0
    for seed in range(first, first + 20):
        result = compared(OpenProgram(seed).text(), ("reference",))
        assert not result.differences, f"seed {seed}: {result.differences[:2]}\n{result.text}"
        ahead += not result.reason
    assert ahead > 2
