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


FLOWS = """
share maxmin;
stage think : delay;
stage near : ps(1);
stage far : ps(1);
workload { arrive batch(2); }
session { run think (1.5); run near, far (0.35); observe left = work(near); }
run { horizon 9; }
"""


def test_nothing_is_left_of_flows_that_end_now() -> None:
    """Two flows share each stage and end together at 2.2; the first to go on sees no rest of the other."""
    series = serq.run(serq.compile(source=FLOWS)).records.series["left"]
    assert series.times == pytest.approx([2.2, 2.2])
    assert all(left >= 0.0 for left in series.values) and series.values == pytest.approx([0.0, 0.0])
