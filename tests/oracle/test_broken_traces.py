"""Traces and predictors with nonsense in them: an error of ours, no traceback, no hang."""

from __future__ import annotations

import pytest

from serq.errors import DataError
from serq.oracle.table import step_table
from serq.runtime.ascend.chunk_predictor import ChunkPredictor, ProfilingChunkConfig

STEP = {"i": 0, "t": 0, "s": [["A", 60, "n", 0, 0]], "tok": 60, "q": [1, 0, 0], "free": [19, 15]}
REQUEST = {"id": "A", "arrival": 0, "finish": None}


@pytest.mark.parametrize("broken", [{"s": [0]}, {"s": 3}, {"t": "x"}, {"q": [1]}, {"blk": {"A": 1}}])
def test_a_broken_step_is_refused(broken: dict[str, object]) -> None:
    assert "60" in step_table([STEP], [REQUEST], 0, 1)
    with pytest.raises(DataError, match="cannot be shown"):
        step_table([STEP | broken], [REQUEST], 0, 1)


def test_numbers_too_large_are_not_fitted() -> None:
    """LAPACK does not end on some of them."""
    predictor = ChunkPredictor(4096, 128, ProfilingChunkConfig())
    assert not predictor.fit(range(1, 11), [1e308] * 10)
    assert predictor.target_ms is None
