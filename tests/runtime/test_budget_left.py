"""`budget_left` between iterations: what the residents, as they are, would leave of the budget (R-B-042)."""

from __future__ import annotations

import pytest

import serq

PROGRAM = """
stage tick : delay;
pool kv {{ cap 10; }}
stage gpu : step {{ cost 1; budget 20; memory kv; {options} }}
workload {{ arrive batch(3); }}
session {{
  branch (serial == 2) {{ loop {{ run tick (0.5); observe left = budget_left(gpu); run tick (0.5); }} }}
  {work}
}}
run {{ horizon 4; }}
"""
MIXED = "branch (serial) { run gpu prefill (5); } else { run gpu decode (5); }"
STALLED = "branch (serial) { hold kv (8) { run tick (9); } } hold kv (0) { run gpu prefill (7) growing kv; }"


@pytest.mark.parametrize(
    ("options", "work", "left"),
    [
        ("", "run gpu decode (3);", [18, 18, 18, 20]),
        ("", "run gpu prefill (15);", [0, 10, 20, 20]),
        ("chunk 2;", "run gpu prefill (5);", [16, 16, 18, 20]),
        ("chunk 2;", MIXED, [17, 17, 18, 19]),
        ("serve exclusive prefill;", MIXED, [14, 19, 19, 19]),
        ("", STALLED, [13, 13, 13, 13]),
    ],
)
def test_between_iterations(options: str, work: str, left: list[float]) -> None:
    """A decode takes 1, a prefill its chunk, also one that is stalled; tokens count at its end."""
    report = serq.run(serq.compile(source=PROGRAM.format(options=options, work=work)))
    assert report.records.series["left"].values == left


def test_a_negative_budget_leaves_nothing() -> None:
    source = "stage e : step { cost 1; budget 0 - 3; } workload { arrive batch(1); } "
    report = serq.run(
        serq.compile(source=source + "session { observe a = budget_left(e); } run { horizon 1; }")
    )
    assert report.records.series["a"].values == [0]
