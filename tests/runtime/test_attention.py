"""`attention` counts the position that a chunk starts from (R-B-034)."""

from __future__ import annotations

import pytest

import serq

PROGRAM = """
stage gpu : step {{ cost 1 + attention; {memory} }}
pool other {{ }}
pool kv {{ }}
workload {{ arrive batch(1); }}
session {{
  hold other (2), kv (4) {{ }} cache (4)
  hold other (8), kv (8) {{ run gpu prefill (2) {growing}; observe took = now; }}
}}
run {{ horizon 60; }}
"""


@pytest.mark.parametrize("memory", ["memory kv;", ""])
@pytest.mark.parametrize(("growing", "start"), [("growing kv", 4), ("growing other", 2), ("", 0)])
def test_the_position_is_that_of_the_pool_the_run_grows(memory: str, growing: str, start: int) -> None:
    """One chunk of 2 tokens: 2 x (start + 1), whatever the engine's memory is; recorded with pyserq 0.1.0."""
    report = serq.run(serq.compile(source=PROGRAM.format(memory=memory, growing=growing)))
    assert report.records.series["took"].values == [1 + 2 * (start + 1)]
