"""Engines that thrash since warm-up, from what a run recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from serq.results.tables import member_namer
from serq.runtime.records import Records
from serq.runtime.serving.thrash import thrash_sentence


def thrashing(records: Records) -> Iterator[str]:
    """A sentence for every engine that thrashes since warm-up. Needs records with all their rows."""
    name = member_namer(records.engines)
    for engine in records.engines:
        victims = engine.victims
        since = [place for place, time in enumerate(victims.time) if time >= records.warmup]
        lost = sum(victims.lost_tokens[place] for place in since)
        times = Counter(victims.request[place] for place in since)
        sentence = thrash_sentence(name(engine), engine.tokens, lost, times)
        if sentence is not None:
            yield sentence
