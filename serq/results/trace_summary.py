"""What a trace holds, in a few figures."""

from __future__ import annotations

from math import ceil

from serq.results.json_form import Plain, plain
from serq.results.statistics import mean, summarize
from serq.runtime.trace import Trace


def describe(trace: Trace) -> dict[str, Plain]:
    """Name -> figure; None for what the trace does not say. Times in seconds, lengths in tokens."""
    span = None if trace.times is None else max(trace.times) - min(trace.times)
    facts: dict[str, Plain] = {
        "format": trace.format,
        "sessions": trace.sessions,
        "turns": trace.turns,
        "duration": span,
        "sessions per second": (trace.sessions - 1) / span if span else None,
        **_lengths("new tokens", list(trace.new)),
        **_lengths("out tokens", list(trace.out)),
        "think, mean": mean(trace.think),
        "forced tokens, mean": mean(trace.forced),
        "different hash ids": _different(trace),
    }
    return {name: plain(value) for name, value in facts.items()}


def _lengths(name: str, values: list[float]) -> dict[str, Plain]:
    summary = summarize(values)
    return {
        f"{name}, mean": summary.mean,
        f"{name}, median": sorted(values)[ceil(len(values) / 2) - 1],
        f"{name}, p99": summary.p99,
        f"{name}, largest": summary.largest,
    }


def _different(trace: Trace) -> int | None:
    if trace.hash_ids is None:
        return None
    return len({hash_id for ids in trace.hash_ids for hash_id in ids})
