"""Engines that thrash: they compute again much of what they had, because more run than the memory holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from serq.results.tables import member_namer
from serq.runtime.records import Records

OFTEN: Final = 5
"""Preemptions of one request from which on it thrashes; real engines were seen with 4 (inference-sim#963)."""
_MUCH: Final = 0.1
"""The share of lost tokens from which on an engine thrashes: where recomputation is felt (vllm#54644)."""


def thrashing(records: Records) -> Iterator[str]:
    """A sentence for every engine that thrashes since warm-up. Needs records with all their rows."""
    name = member_namer(records.engines)
    for engine in records.engines:
        victims = engine.victims
        since = [place for place, time in enumerate(victims.time) if time >= records.warmup]
        if not since or not engine.tokens:
            continue
        lost = sum(victims.lost_tokens[place] for place in since)
        share = lost / engine.tokens
        times = Counter(victims.request[place] for place in since)
        worst, most = min(times.items(), key=lambda entry: (-entry[1], entry[0]))
        if share >= _MUCH or most >= OFTEN:
            yield (
                f"`{name(engine)}` thrashes: {_count(len(since), 'preemption')} lost {lost} computed tokens, "
                f"{100 * share:.1f} % of all that it computed; "
                f"request {worst} gave way {_count(most, 'time')}"
            )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
