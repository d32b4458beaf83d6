"""A measured run: what was sent when, and what the engine or the client saw of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class MeasuredRequest:
    """One request. Times in seconds after the first arrival.

    ``arrival`` is when it was sent, ``queued`` when the engine took it in (None: only the client's side is
    known), ``first`` and ``last`` when its first and last token came.
    """

    prompt_tokens: int
    output_tokens: int
    arrival: float
    queued: float | None
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Stated:
    """Something that the files of a run state, and where they do."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run as its files tell it.

    ``stated`` are engine options under vLLM's names, and what is known of links and memory; ``rates`` are
    (end of a tick, tokens a second in it) where the engine logged them; ``failed`` requests are left out;
    ``notes`` say what else a reader should know.
    """

    path: Path
    requests: tuple[MeasuredRequest, ...]
    stated: dict[str, Stated] = field(default_factory=dict)
    rates: tuple[tuple[float, float], ...] = ()
    failed: int = 0
    notes: tuple[str, ...] = ()

    @property
    def from_client(self) -> bool:
        """Whether times were taken by the client, not in the engine."""
        return self.requests[0].queued is None

    def text(self, name: str) -> str:
        """A stated text; empty where the run does not say."""
        found = self.stated.get(name)
        return "" if found is None else str(found.value)
