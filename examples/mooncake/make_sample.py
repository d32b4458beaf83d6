"""Make sample.jsonl: invented conversations in the format of the Mooncake traces.

Everybody shares a system prompt; a conversation grows turn by turn, each turn repeating all before it. The
distributions are made up; nothing in the file comes from a real trace.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

from serq.runtime.random import DrawStream, RandomSource

CONVERSATIONS = 90
TOKENS_PER_HASH = 512
SYSTEM = [0, 1]  # two hash ids that every prompt begins with


def requests(draws: DrawStream) -> list[dict[str, object]]:
    """One record a request, in the order of time."""
    fresh = count(len(SYSTEM))
    found = []
    start = 0.0
    for _ in range(CONVERSATIONS):
        start += draws.exp(0, 4.0)
        time, ids = start, list(SYSTEM)
        for _ in range(1 + int(draws.exp(1, 2.5))):
            ids = ids + [next(fresh) for _ in range(1 + int(draws.exp(2, 6)))]
            length = TOKENS_PER_HASH * len(ids) - draws.index(3, TOKENS_PER_HASH)
            answer = 1 + int(draws.exp(4, 150))
            found.append((time, length, answer, ids))
            ids = ids[:-1]  # the last id names a part of a block: the next turn has another one there
            time += 5 + draws.exp(5, 40)
    return [
        {"timestamp": int(1000 * time), "input_length": length, "output_length": answer, "hash_ids": ids}
        for time, length, answer, ids in sorted(found, key=lambda entry: entry[0])
    ]


if __name__ == "__main__":
    lines = [json.dumps(record) for record in requests(RandomSource(2026).arrivals())]
    Path(__file__).with_name("sample.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
