"""Random programs with `vllm` stages record the same however their engines run."""

from __future__ import annotations

import pytest

from tests.fuzz.engine_programs import EngineProgram
from tests.fuzz.fast_path import compared


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_planned_runs_record_what_the_walk_records(first: int) -> None:
    planned = 0
    for seed in range(first, first + 50):
        text = EngineProgram(seed).text()
        result = compared(text)
        assert not result.differences, text
        planned += result.planned
    assert planned > 100
