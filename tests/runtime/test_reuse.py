"""`reuse` is read when the hold is granted: its session no longer waits (R-A-053, R-A-083)."""

from __future__ import annotations

import serq

PROGRAM = """
pool p { cap 50; }
stage think : delay;
workload { arrive batch(1); }
session {
  hold p (9) { run think (1); } cache (9)
  hold p (queued(p)) reuse (queued(p)) { observe units = used(p); observe found = cached; }
}
run { horizon 9; }
"""


def test_units_count_the_session_itself_and_reuse_does_not() -> None:
    """Recorded with pyserq 0.1.0."""
    series = serq.run(serq.compile(source=PROGRAM)).records.series
    assert (series["units"].values, series["found"].values) == ([1], [0])
