"""What the slowest requests have in common, on a run worked out by hand."""

from __future__ import annotations

import pytest

from serq.errors import UsageError
from serq.ir import nodes
from serq.results.explanation.split import Part
from serq.results.explanation.tail import PartShare, Trait, explain_tail
from serq.results.explanation.words import tail_text
from tests.runtime.serving.build import branch, request, run, vllm

# One slot, four requests of one token sent at 0: TTFT 10, 20, 30, 40; the last is long and of class 7.
SESSION = [
    branch("serial < 3", request(5, 1, label="1")),
    branch("serial == 3", request(50, 1, label="7")),
]


def records():
    return run(vllm(max_num_seqs=1), SESSION, arrive=nodes.Batch(4), horizon=100.0)


def test_the_tail_and_what_it_has() -> None:
    found = explain_tail("ttft", 0.9, records())
    assert (found.limit, found.count, list(found.requests)) == (40, 4, [3])
    assert list(found.parts) == [PartShare(Part.SLOTS, 30, 15), PartShare(Part.PREFILL, 10, 10)]
    assert list(found.traits) == [Trait("class 7", 1, 0.25), Trait("prompt of 6 to 50 tokens", 1, 0.25)]
    assert [trait.lift for trait in found.traits] == [4, 4]
    text = tail_text(found)
    assert text.startswith("ttft p90 is 40 s: 1 of 4 requests took as long or longer; the slowest are 3")
    assert "waited for a slot 30 75.0 % 15 60.0 %" in " ".join(text.split())


def test_half_of_them() -> None:
    found = explain_tail("e2e", 0.5, records())
    assert (found.limit, list(found.requests)) == (20, [3, 2, 1])


def test_a_metric_that_nobody_has() -> None:
    with pytest.raises(UsageError, match="no request that ended since warm-up has a tpot"):
        explain_tail("tpot", 0.99, records())
