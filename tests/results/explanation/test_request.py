"""Why a request was slow: parts that add up exactly, and those it waited for, worked out by hand."""

from __future__ import annotations

import json
from fractions import Fraction
from math import isnan

import pytest

from serq.errors import UsageError
from serq.ir import nodes
from serq.ir.serving import Waiting, WaitingOption
from serq.results.explanation.request import explain_request, place_of
from serq.results.explanation.split import Part, Splitter
from serq.results.explanation.words import plain, request_text
from serq.results.metrics import REQUEST_METRICS, of_one
from serq.runtime.records import Records
from tests.runtime.serving.build import branch, pause, request, run, vllm
from tests.runtime.serving.test_queue_log import random_engine


def spent(records: Records, place: int) -> dict[Part, float]:
    return {row.part: row.seconds for row in explain_request(place, records).spent}


def test_a_slot_is_waited_for_from_the_end_of_a_step_on() -> None:
    """One slot, steps of 10. Request 0 runs from 0 to 30; request 1 comes at 4 and is taken in at 10."""
    first, second = branch("serial == 0", request(5, 3)), branch("serial == 1", pause(4), request(5, 2))
    records = run(vllm(max_num_seqs=1), [first, second], arrive=nodes.Batch(2))
    assert spent(records, 1) == {Part.TAKEN_IN: 6, Part.SLOTS: 20, Part.PREFILL: 10, Part.DECODE: 10}
    assert spent(records, 0) == {Part.PREFILL: 10, Part.DECODE: 20}
    found = explain_request(1, records)
    assert [other.request for other in found.ran_before] == [0] and not found.ahead and not found.passed_by
    assert "waited for a slot 20 43.5 %" in " ".join(request_text(found).split())


def test_decodes_beside_a_prefill_are_told_apart() -> None:
    """A step costs its tokens. Request 1's prompt of 50 shares the step that brings request 0's third token.

    Steps: 5 [0, 5), 1 [5, 6), then 1 + 50 [6, 57), then two decodes [57, 59).
    """
    session = [branch("serial == 0", request(5, 4)), branch("serial == 1", pause("5.5"), request(50, 2))]
    records = run(vllm("tokens"), session, arrive=nodes.Batch(2))
    assert spent(records, 0) == {Part.PREFILL: 5, Part.DECODE: 3, Part.INTERFERENCE: 51}
    steps = explain_request(0, records).steps
    assert (steps.steps, steps.alone, steps.mean_alone, steps.mean_shared) == (3, 2, 1.5, 51)
    assert [other.request for other in steps.prefills] == [1]


def test_token_budget_and_kv_blocks() -> None:
    """Budget of 64: request 1 waits while request 0 fills the step, then gets 63 tokens beside its decode.

    With 9 blocks it waits until request 0 has ended.
    """
    budget = run(vllm(max_num_batched_tokens=64, max_num_seqs=4), [request(64, 2)], arrive=nodes.Batch(2))
    assert spent(budget, 1) == {Part.BUDGET: 10, Part.PREFILL: 20, Part.DECODE: 10}
    blocks = run(vllm(num_gpu_blocks=10), [request(100, 2)], arrive=nodes.Batch(2))
    assert spent(blocks, 1) == {Part.KV: 20, Part.PREFILL: 10, Part.DECODE: 10}


def test_a_preemption_costs_the_wait_and_the_recomputation() -> None:
    """The trace of `test_queue_log`: preempted at 10 for request 0, back at 200, its second token at 210."""
    session = [branch("serial == 0", request(64, 20)), branch("serial == 1", request(80, 2))]
    records = run(vllm(num_gpu_blocks=10), session, arrive=nodes.Batch(2))
    assert spent(records, 1) == {Part.PREFILL: 10, Part.PREEMPTED: 190, Part.RECOMPUTED: 10}
    text = request_text(explain_request(1, records))
    assert "preempted at 10 s in step 1 because request 0 needed blocks: lost 80 computed tokens" in text
    assert "admitted again at 200 s, next token at 210 s" in text


def test_who_was_passed_by_is_told() -> None:
    """Short requests first, no aging: request 1 is long, came at 1, and goes after those of 2 and 3."""
    waiting = Waiting("short_request_first", options=(WaitingOption("threshold", 30),))
    later = branch("serial > 0", pause("serial"), request("2 + 40 * (serial == 1)", 1))
    engine = vllm(max_num_seqs=1, waiting=waiting)
    records = run(engine, [branch("serial == 0", request(5, 3)), later], arrive=nodes.Batch(4))
    found = explain_request(1, records)
    assert [(other.request, other.lane) for other in found.passed_by] == [(2, "short"), (3, "short")]
    assert [(stay.lane, stay.entered, stay.left) for stay in found.stays] == [("long", 10, 50)]


@pytest.mark.parametrize("seed", range(8))
def test_parts_add_up_to_every_latency_exactly(seed: int) -> None:
    """Not nearly: in the rational numbers that the floats are. What ran to its end has all of e2e."""
    definition = [request("20 + 40 * bernoulli(0.5)", "20 + 30 * bernoulli(0.5)", abort_after="9000")]
    records = run(random_engine(seed), definition, arrive=nodes.Poisson(0.004), horizon=30_000.0, seed=seed)
    splitter, table = Splitter(records), records.requests
    kinds: set[Part] = set()
    for place in range(len(table)):
        sent, end = table.sent[place], splitter.end_of(place)
        split = splitter.split(place, sent, end)
        kinds |= set(split)
        whole = sum(split.values())
        assert whole == splitter.ticks.of(end) - splitter.ticks.of(sent)
        assert Fraction(whole, splitter.ticks.of(1.0)) == Fraction(end) - Fraction(sent)
        e2e = of_one(REQUEST_METRICS["e2e"], table, place)
        assert isnan(e2e) or splitter.ticks.seconds(whole) == e2e
        assert all(ticks > 0 for ticks in split.values())
        assert (Part.PREEMPTED in split) <= (table.preemptions[place] > 0)
    assert {Part.TAKEN_IN, Part.PREFILL, Part.DECODE, Part.INTERFERENCE, Part.PREEMPTED} <= kinds


def test_how_a_request_is_named() -> None:
    """Three requests of one slot: ends at 20, 40, 60 when sent at 0."""
    records = run(vllm(max_num_seqs=1), [request(5, 2, handle="a")], arrive=nodes.Batch(3))
    names = {name: place_of(name, records) for name in ("1", "2:a", "worst", "p99", "p50", "p34", "p33")}
    assert names == {"1": 1, "2:a": 2, "worst": 2, "p99": 2, "p50": 1, "p34": 1, "p33": 0}
    for wrong in ("3", "3:a", "0:b", "slowest", "p100", ""):
        with pytest.raises(UsageError):
            place_of(wrong, records)


def test_as_plain_data() -> None:
    records = run(vllm(), [request(5, 2)])
    found = json.loads(json.dumps(plain(explain_request(0, records)), allow_nan=False))
    assert found["spent"] == [
        {"part": "prefill", "seconds": 10, "share": 0.5}, {"part": "decode", "seconds": 10, "share": 0.5}
    ]  # fmt: skip
    assert found["metrics"]["e2e"] == 20 and found["label"] is None


def test_thrash_is_named() -> None:
    """Requests outgrow the memory again and again; whoever gave way five times is told so."""
    engine = vllm(num_gpu_blocks=30, max_num_seqs=24, max_model_len=390)
    records = run(engine, [request(16, 370)], arrive=nodes.Batch(24))
    places = [p for p in range(len(records.requests)) if records.requests.preemptions[p] >= 5]
    assert places
    assert "finding: thrash: it was preempted" in request_text(explain_request(places[0], records))
