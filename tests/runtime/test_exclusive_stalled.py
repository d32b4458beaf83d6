"""`serve exclusive prefill` while the only prefill waits for memory (R-B-037, R-B-040)."""

from __future__ import annotations

import serq

PROGRAM = """
stage tick : delay;
pool kv {{ cap 6; }}
pool reqs {{ cap 9; admit via gpu; }}
stage gpu : step {{ cost 1; memory kv; serve exclusive prefill; }}
workload {{ arrive batch(4); }}
session {{
  branch (serial == 0) {{ hold kv (3) {{ run tick (99); }} }}
  branch (serial == 1) {{ run tick (0.5); hold kv (1) {{ run gpu prefill (5) growing kv; }} }}
  branch (serial == 2) {{ run gpu decode (4); observe decoded = now; end; }}
  run tick (3);
  hold reqs (1) {{ observe admitted = now; {work} observe finished = now; }}
}}
run {{ horizon 20; }}
"""


def times(work: str) -> dict[str, list[float]]:
    report = serq.run(serq.compile(source=PROGRAM.format(work=work)))
    return {name: series.values for name, series in report.records.series.items()}


def test_decodes_wait_for_it_and_heads_are_admitted() -> None:
    """Recorded with pyserq 0.1.0: the decode of session 2 stands still behind the prefill of session 1."""
    assert times("") == {"decoded": [], "admitted": [3], "finished": [3]}


def test_a_newcomer_that_prefills_is_served() -> None:
    assert times("run gpu prefill (2);") == {"decoded": [], "admitted": [3], "finished": [4]}


def test_a_newcomer_that_decodes_waits_too() -> None:
    assert times("run gpu decode (2);") == {"decoded": [], "admitted": [3], "finished": []}
