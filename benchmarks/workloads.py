"""The workloads, and the files in which adapters get them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from math import ceil
from pathlib import Path
from random import Random

from benchmarks.jobs import AFFINE, Engine, Job

Request = tuple[float, int, int, tuple[int, ...] | None]
"""Arrival in seconds, prompt tokens, output tokens, hash ids (None: nothing is shared)."""

Rows = Callable[[int, Path], Iterator[Request]]
"""Yields that many requests, from a folder of traces where they come from one."""

HASH_TOKENS = 512


@dataclass(frozen=True)
class Workload:
    """``count`` requests to an engine. ``trace`` is the file they come from; None: they are generated."""

    name: str
    what: str
    count: int
    rows: Rows
    engine: Engine = field(default_factory=Engine)
    trace: str | None = None
    shares_prefixes: bool = False
    preempts: bool = False

    def scaled(self, factor: float) -> int:
        """How many requests a part of the workload has; never less than 40."""
        return min(self.count, max(40, ceil(self.count * factor)))

    def write(self, folder: Path, traces: Path, count: int) -> Job:
        """Write ``count`` requests in every form that adapters read.

        Where the trace is absent, generated requests of a like size stand in for it; :meth:`stands_in` tells.
        """
        rows = stand_in if self.stands_in(traces) else self.rows
        job = Job(
            self.name, count, self.engine, AFFINE, str(folder / "requests.csv"), str(folder / "timed.csv"),
            str(folder / "mooncake.jsonl"), self.shares_prefixes, self.preempts,
        )  # fmt: skip
        written = 0
        with (
            Path(job.requests).open("w", encoding="utf-8") as plain,
            Path(job.timed).open("w", encoding="utf-8") as timed,
            Path(job.mooncake).open("w", encoding="utf-8") as mooncake,
        ):
            plain.write("session,turn,new,out,think,forced\n")
            timed.write("session,turn,new,out,think,forced,time\n")
            unique = 10**9
            for number, (time, prompt, output, shared) in enumerate(rows(count, traces)):
                plain.write(f"{number},0,{prompt},{output},{time!r},0\n")
                timed.write(f"{number},0,{prompt},{output},0,0,{time!r}\n")
                own = range(unique, unique + ceil(prompt / HASH_TOKENS))
                unique = own.stop
                record = {
                    "timestamp": time * 1000,
                    "input_length": prompt,
                    "output_length": output,
                    "hash_ids": shared or tuple(own),
                }
                mooncake.write(json.dumps(record) + "\n")
                written = number + 1
        assert written == count, f"{self.name}: {written} requests, not {count}"
        return job

    def stands_in(self, traces: Path) -> bool:
        """Whether the trace is absent, so that a generated workload stands in."""
        return self.trace is not None and not (traces / self.trace).exists()


def azure(speed: float = 1.0) -> Rows:
    """The conversation part of the Azure LLM inference trace of 2023."""

    def rows(count: int, traces: Path) -> Iterator[Request]:
        with (traces / "azure_2023_conv.csv").open(encoding="utf-8") as lines:
            next(lines)
            first = None
            for line in islice(lines, count):
                stamp, prompt, output = line.rstrip().split(",")
                second, fraction = stamp.split(".")
                time = datetime.fromisoformat(f"{second}+00:00").timestamp()
                ticks = round(time) * 10**7 + int(fraction[:7])
                first = ticks if first is None else first
                yield (ticks - first) / 1e7 / speed, int(prompt), int(output), None

    return rows


def mooncake(slowed: float) -> Rows:
    """The Mooncake conversation trace, slowed down to what one engine can serve."""

    def rows(count: int, traces: Path) -> Iterator[Request]:
        with (traces / "mooncake_conversation.jsonl").open(encoding="utf-8") as lines:
            for line in islice(lines, count):
                row = json.loads(line)
                time = row["timestamp"] / 1000 * slowed
                yield time, row["input_length"], row["output_length"], tuple(row["hash_ids"])

    return rows


def evenly(gap: float, prompt: int, output: int) -> Rows:
    """Equal requests, ``gap`` seconds apart."""
    return lambda count, traces: ((i * gap, prompt, output, None) for i in range(count))


def random_requests(gap: float, prompts: tuple[int, int], outputs: tuple[int, int]) -> Rows:
    """Lengths drawn evenly from ranges, ``gap`` seconds apart on average; the same in every call.

    Gaps are drawn too: an arrival that falls on the end of a step is rounded to one side or the other by who
    counts in seconds and who in milliseconds.
    """

    def rows(count: int, traces: Path) -> Iterator[Request]:
        random = Random(1)
        time = 0.0
        for _ in range(count):
            yield time, random.randint(*prompts), random.randint(*outputs), None
            time = round(time + random.uniform(0.0, 2.0 * gap), 7)

    return rows


stand_in = random_requests(0.2, (200, 2000), (20, 400))
"""Stands in for a trace that is not here."""

_AZURE, _MOONCAKE = "azure_2023_conv.csv", "mooncake_conversation.jsonl"

WORKLOADS = (
    Workload("azure-1k", "Azure conversation, first 1,000", 1_000, azure(), trace=_AZURE),
    Workload("azure-5k", "Azure conversation, first 5,000", 5_000, azure(), trace=_AZURE),
    Workload("azure-20k", "Azure conversation, all 19,366", 19_366, azure(), trace=_AZURE),
    Workload(
        "azure-5k-cached", "the first 5,000 with prefix caching on (nothing is shared)", 5_000, azure(),
        Engine(prefix_caching=True), trace=_AZURE,
    ),
    Workload(
        "long", "200 requests of 512 + 4,000 tokens, 0.05 s apart", 200, evenly(0.05, 512, 4_000),
        Engine(num_gpu_blocks=60_000),
    ),
    Workload(
        "chat-64", "saturated chat, 64 running", 2_000, random_requests(0.01, (64, 768), (128, 384)),
        Engine(max_num_seqs=64),
    ),
    Workload(
        "chat-256", "saturated chat, 256 running", 4_000, random_requests(0.002, (64, 768), (128, 384)),
    ),
    Workload(
        "kv-tight", "64 running, too few blocks: preemptions", 1_000,
        random_requests(0.05, (64, 512), (256, 768)),
        Engine(max_num_seqs=64, num_gpu_blocks=2_000), preempts=True,
    ),
    Workload(
        "replicas-8", "the first 5,000 eight times as fast, 8 replicas in turn", 5_000, azure(speed=8),
        Engine(replicas=8), trace=_AZURE,
    ),
    Workload(
        "mooncake", "Mooncake conversation, first 2,000, slowed 4 times, prefix caching on", 2_000,
        mooncake(slowed=4), Engine(prefix_caching=True, num_gpu_blocks=100_000), trace=_MOONCAKE,
        shares_prefixes=True,
    ),
    Workload(
        "million", "1,000,000 short requests", 1_000_000, random_requests(0.005, (16, 112), (1, 15)),
    ),
)  # fmt: skip
"""In the order of the table."""
