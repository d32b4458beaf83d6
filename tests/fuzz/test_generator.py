"""The generator keeps to what can be compared, and covers the language."""

from __future__ import annotations

import re
from collections import Counter

from tests.fuzz.generator import random_program
from tests.fuzz.quirks import quirks

PROGRAMS = 400
CONSTRUCTS = (
    *(
        "hold",
        "reserve",
        "reuse",
        "cache",
        "lease",
        "at admission",
        "grow",
        "growing",
        "load",
        "drop",
        "release",
    ),
    *(
        "preempt lifo",
        "preempt none",
        "queue by",
        "waited",
        "evict by",
        "spill",
        "admit via",
        "block",
        "budget_left",
    ),
    *(
        "fifo",
        "ps",
        "delay",
        "step",
        "budget",
        "chunk",
        "memory",
        "serve exclusive prefill",
        "serve by",
        "attention",
    ),
    *(
        "share maxmin",
        "share bottleneck",
        "choose",
        "branch",
        "turn",
        "loop",
        "hidden",
        "trace",
        "server",
        "request",
    ),
    *(
        "batch",
        "closed",
        "renewal",
        "arrivals",
        "warmup",
        "let",
        "def",
        "~det",
        "prefill on",
        "decode on",
        "end",
    ),
)


def test_nothing_incomparable_is_generated() -> None:
    assert not {seed: found for seed in range(PROGRAMS) if (found := quirks(random_program(seed)))}


def test_every_construct_appears() -> None:
    seen: Counter[str] = Counter()
    for seed in range(PROGRAMS):
        text = random_program(seed).text
        seen.update(word for word in CONSTRUCTS if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text))
    assert not [word for word in CONSTRUCTS if not seen[word]]


def test_a_seed_is_a_program_for_ever() -> None:
    assert random_program(7).text == random_program(7).text
