"""What a hold leaves in the cache when it is preempted with nothing computed in it (R-A-081, R-A-079)."""

from __future__ import annotations

import serq

PROGRAM = """
pool kv { cap 12; block 2; preempt lifo; }
pool slots { }
stage gpu : step { cost 1; }
stage think : delay;
workload { arrive batch(2); }
session {
  branch (serial == 0) { hold kv (4) { run think (2); grow kv (6); run think (1); } end; }
  run think (1);
  hold slots (1), kv (4) {
    observe found = cached;
    run gpu prefill (0) growing kv;
    run think (3);
  } cache (4)
}
run { horizon 20; }
"""


def test_the_tokens_stay_and_the_slots_do_not() -> None:
    """At 2 the growth to 10 of 12 takes session 1's 4 units; one block of the 4 left cached must go for it.

    The slot leaves nothing then: `mean_cached` counts what the completed hold leaves of it, from 6 to 20.
    """
    report = serq.run(serq.compile(source=PROGRAM))
    assert report.records.series["found"].values == [0, 2]
    slots = next(row for row in report.records.pools if row.name == "slots")
    assert slots.mean_cached == (20 - 6) / 20
