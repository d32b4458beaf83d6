"""What an adapter is asked to run, and what it answers. Standard library only: peers read it too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Engine:
    """The serving engine of a workload, by vLLM's names. ``replicas`` get requests in turn."""

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    num_gpu_blocks: int = 50_000
    block_size: int = 16
    prefix_caching: bool = False
    replicas: int = 1


@dataclass(frozen=True)
class Price:
    """What a step costs, in seconds.

    ``affine``: ``base`` plus ``per_token`` a scheduled token. ``fixed``: ``prefill`` where a prompt token is
    computed, plus ``decode`` where anybody decodes; the only price that every peer can be given.
    """

    kind: str = "affine"
    base: float = 0.010
    per_token: float = 50e-6
    prefill: float = 0.050
    decode: float = 0.011


AFFINE = Price("affine")
FIXED = Price("fixed")


@dataclass(frozen=True)
class Job:
    """One run: a workload written to files, an engine, a price.

    ``requests`` is a session CSV whose `think` is the time of arrival; ``timed`` is the same with a column
    `time`; ``mooncake`` is JSONL with hash ids of 512 tokens.
    """

    workload: str
    count: int
    engine: Engine
    price: Price
    requests: str
    timed: str
    mooncake: str
    shares_prefixes: bool = False
    preempts: bool = False

    def priced(self, price: Price) -> Job:
        """The same with another price."""
        return replace(self, price=price)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """The job of :meth:`to_json`."""
        fields = json.loads(text)
        fields["engine"] = Engine(**fields["engine"])
        fields["price"] = Price(**fields["price"])
        return Job(**fields)

    def rows(self) -> Iterator[tuple[float, int, int]]:
        """Arrival, prompt tokens and output tokens of every request, in order of arrival."""
        with Path(self.requests).open(encoding="utf-8") as lines:
            next(lines)
            for line in lines:
                fields = line.split(",")
                yield float(fields[4]), int(fields[2]), int(fields[3])


@dataclass(frozen=True)
class Outcome:
    """What a run came to; None where the peer does not say. Times of the model are seconds.

    ``run_cpu`` and ``run_wall`` leave out loading: start, imports, compilation and reading the workload.
    """

    run_cpu: float
    run_wall: float
    requests: int
    steps: int | None = None
    mean_ttft: float | None = None
    mean_e2e: float | None = None
    preemptions: int | None = None
