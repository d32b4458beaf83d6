"""`work` of a stage whose jobs end together is 0 at that instant, never a rounding below it (R-B-018)."""

from __future__ import annotations

import pytest

import serq

PROGRAM = """
stage think : delay;
stage s : {stage};
workload {{ arrive batch(2); }}
session {{ run think (1.5); run s (0.7); observe left = work(s); }}
run {{ horizon 9; }}
"""


@pytest.mark.parametrize("stage", ["delay", "fifo(2)", "ps(2)"])
def test_nothing_is_left_of_jobs_that_end_now(stage: str) -> None:
    """1.5 + 0.7 - 1.5 is more than 0.7 in doubles."""
    assert 1.5 + 0.7 - 1.5 > 0.7
    report = serq.run(serq.compile(source=PROGRAM.format(stage=stage)))
    assert report.records.series["left"].values == [0, 0]
