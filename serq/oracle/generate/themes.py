"""What a scenario is about: how likely each feature is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Theme:
    """Probabilities of the features of a scenario, and the weights of the layouts of its KV cache.

    Growth means short prompts and long outputs: many requests are admitted and then outgrow the pool.
    """

    name: str
    weight: float
    layouts: Mapping[str, float] = field(default_factory=lambda: {"full": 1.0})
    asynchronous: float = 0.4
    speculative: float = 0.25
    connector: float = 0.0
    priority: float = 0.3
    pressure: float = 0.6
    sharing: float = 0.5
    caching: float = 0.9
    control: float = 0.15
    cadence: float = 0.05
    tight_knobs: float = 0.3
    growth: float = 0.1


_WINDOWS = {
    "sliding": 1.0,
    "two_sliding": 0.7,
    "full_sliding": 1.5,
    "full_two_sliding": 1.0,
    "chunked": 0.7,
    "full_chunked": 0.7,
    "sliding_chunked": 0.3,
}
_STATES = {
    "align": 1.0,
    "align_only": 0.5,
    "align_sliding": 0.6,
    "align_under_full": 0.5,
    "all": 0.7,
    "all_only": 0.3,
}
_INSIDE_BLOCKS = {"fine": 1.0, "fine_under_full": 0.5}
_ANY = {"full": 2.0, **_WINDOWS, **_STATES, **_INSIDE_BLOCKS}

THEMES = (
    Theme("plain", 1.0, speculative=0.0, priority=0.0, pressure=0.3, control=0.0),
    Theme("order", 1.0, priority=0.9, pressure=0.8, tight_knobs=0.6),
    Theme("knobs", 1.0, tight_knobs=1.0, cadence=0.5),
    Theme("overlap", 2.0, asynchronous=1.0, speculative=0.7, pressure=0.95),
    Theme("drafts", 1.5, speculative=1.0, pressure=0.7, tight_knobs=0.5),
    Theme("growth", 1.5, layouts=_ANY, asynchronous=0.6, speculative=0.4, pressure=1.0, growth=1.0),
    Theme("growth", 1.5, layouts=_ANY, asynchronous=0.6, speculative=0.4, pressure=1.0, growth=1.0),
    Theme("sharing", 1.0, sharing=1.0, pressure=0.8),
    Theme("windows", 2.0, layouts=_WINDOWS, pressure=0.7, sharing=0.8),
    Theme("states", 2.0, layouts=_STATES, pressure=0.7, sharing=0.8),
    Theme("inside_blocks", 2.5, layouts=_INSIDE_BLOCKS, sharing=1.0, pressure=0.6),
    Theme("no_cache", 0.7, layouts={**_ANY, "none": 3.0}, caching=0.0),
    Theme("transfers", 2.0, connector=1.0, asynchronous=0.5, pressure=0.8),
    Theme("hybrid_transfers", 0.7, layouts=_ANY, connector=1.0, asynchronous=0.5, sharing=0.8),
    Theme("control", 1.5, control=1.0, asynchronous=0.6, cadence=0.1),
    Theme("anything", 2.0, layouts=_ANY, connector=0.2, control=0.4, cadence=0.2, tight_knobs=0.6),
)
