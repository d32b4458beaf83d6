"""examples/mooncake and examples/routing: what engines cache, and routing by what they have cached."""

from __future__ import annotations

from time import process_time

import pytest

import serq
from serq.runtime.trace import Trace, read_trace
from serq.runtime.trace.columns import TOKENS_PER_HASH
from tests.shared import ROOT, shared

MOONCAKE = ROOT / "examples" / "mooncake"
ROUTING = ROOT / "examples" / "routing" / "engines.sq"
BLOCK = 128


def found_before(trace: Trace) -> list[int]:
    """Tokens of every prompt that some earlier one began with, in whole blocks, the last token left out."""
    assert trace.hash_ids is not None
    seen: dict[tuple[int, ...], int] = {}
    found = []
    for length, ids in zip(map(int, trace.new), trace.hash_ids, strict=True):
        prefixes = [tuple(ids[: end + 1]) for end in range(len(ids))]
        lengths = [min(TOKENS_PER_HASH * (end + 1), length) for end in range(len(ids))]
        shared_tokens = max((seen[p] for p in prefixes if p in seen), default=0)
        found.append(min(shared_tokens, length - 1) // BLOCK * BLOCK)
        for prefix, tokens in zip(prefixes, lengths, strict=True):
            seen[prefix] = max(seen.get(prefix, 0), tokens)
    return found


def test_what_was_there_before_is_found_again() -> None:
    """The sample's requests come one by one and fit the cache: each finds exactly what came before it."""
    report = serq.run(MOONCAKE / "engine.sq")
    table = report.records.requests
    assert list(table.cached_tokens) == found_before(read_trace(MOONCAKE / "sample.jsonl"))
    assert report.records.arrivals == report.records.ended == len(table)


def test_the_published_trace_is_served() -> None:
    """The first 800 requests; the whole hour takes three quarters of a minute."""
    path = shared("data", "traces", "mooncake_conversation.jsonl")
    trace = read_trace(path)
    records = serq.run(serq.compile(MOONCAKE / "engine.sq", trace=path, arrivals=800)).records
    assert records.ended == len(records.requests) == 800
    assert list(records.requests.prompt_tokens) == [int(length) for length in trace.new[:800]]
    assert sum(records.requests.cached_tokens) <= sum(found_before(trace)[:800])
    assert list(records.requests.generated) == [int(length) for length in trace.out[:800]]


def test_affinity_finds_more_in_the_caches() -> None:
    hits = {}
    for affinity in (0, 1):
        program = serq.compile(ROUTING, sets={"affinity": affinity}, horizon=200, warmup=20)
        report = serq.run(program)
        hits[affinity] = report.observations["hit"].mean
        assert set(report.requests["member"]) == {0, 1, 2, 3}
    assert hits[1] > hits[0] + 0.05


@pytest.mark.slow
def test_the_whole_published_hour() -> None:
    path = shared("data", "traces", "mooncake_conversation.jsonl")
    begin = process_time()
    records = serq.run(serq.compile(MOONCAKE / "engine.sq", trace=path)).records
    assert process_time() - begin < 60
    assert records.ended == len(records.requests) == 12_031
