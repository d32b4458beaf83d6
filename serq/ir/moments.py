"""When an expression is evaluated, and what it may read then (R-A-032, R-A-033)."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Rights(msgspec.Struct, frozen=True):
    """What an expression may do at one moment."""

    label: str
    """The moment as messages name it."""
    attributes: bool = True
    """Whether there is a session whose attributes can be read."""
    hidden: bool = True
    """Whether attributes declared `hidden` may be read: the deployment may not know them."""
    draws: bool = True
    live: bool = True
    """Whether `now` and the state of pools and stages can be read."""


class Moment(Enum):
    """The moments at which expressions of a program are evaluated."""

    STATEMENT = Rights("a statement of the session")
    WORKLOAD = Rights("a workload block")
    HEADER = Rights("the header of a hold", hidden=False)
    CACHE = Rights("a `cache` clause")
    LEASE = Rights("a `lease` clause")
    CHOOSE_KEY = Rights("a key of `choose`")
    QUEUE_KEY = Rights("a key of `queue by`", hidden=False, draws=False)
    EVICT_KEY = Rights("a key of `evict by`", hidden=False)
    SPILL = Rights("a `spill` option", hidden=False)
    CAPACITY = Rights("the capacity of a ps stage", attributes=False, hidden=False)
    BUDGET = Rights("the `budget` of a step stage", attributes=False, hidden=False)
    CHUNK = Rights("the `chunk` of a step stage", attributes=False, hidden=False)
    COST = Rights("the `cost` of a step stage", attributes=False, hidden=False)
    SERVE_KEY = Rights("a key of `serve by`", hidden=False, draws=False)
    SERVE_ONLY = Rights("the condition of `serve only`", hidden=False, draws=False)
    ENGINE_COST = Rights("the `cost` of a vllm stage", attributes=False, hidden=False)
    EXECUTOR = Rights("a rule of an executor", attributes=False, hidden=False, draws=False, live=False)
    WAITING_KEY = Rights("a key of `waiting by`", attributes=False, hidden=False, draws=False)
    PROMPT = Rights("the prompt of a request", hidden=False)
    TERMS = Rights("a clause of a request that its engine reads", hidden=False)
    CONNECTOR = Rights("a connector", attributes=False, hidden=False)
    GAUGE = Rights("a gauge", attributes=False, hidden=False, draws=False)
    GAP = Rights("the gap of a renewal process", attributes=False, hidden=False, live=False)
    EXPECT = Rights("an expectation", attributes=False, hidden=False, draws=False, live=False)

    @property
    def rights(self) -> Rights:
        """What may be read at this moment."""
        return self.value


_STEP: Final = frozenset({Moment.BUDGET, Moment.CHUNK, Moment.COST, Moment.SERVE_KEY, Moment.SERVE_ONLY})
_SERVE: Final = frozenset({Moment.SERVE_KEY, Moment.SERVE_ONLY})
_EVICTION: Final = frozenset({Moment.EVICT_KEY, Moment.SPILL})

_COST: Final = frozenset({Moment.COST, Moment.ENGINE_COST, Moment.EXECUTOR})
_WAITING: Final = frozenset({Moment.WAITING_KEY})

READS_REQUESTS: Final = frozenset(
    {Moment.STATEMENT, Moment.WORKLOAD, Moment.HEADER, Moment.CACHE, Moment.LEASE, Moment.CHOOSE_KEY}
    | {Moment.PROMPT, Moment.TERMS}
)
"""Moments at which a session may look at the requests that it has sent."""

VARIABLES: Final[dict[str, frozenset[Moment]]] = {
    "now": frozenset(moment for moment in Moment if moment.rights.live),
    "waited": frozenset({Moment.QUEUE_KEY, Moment.WAITING_KEY}),
    **dict.fromkeys(("size", "age", "last", "waiting"), _EVICTION),
    "present": frozenset({Moment.CAPACITY}),
    "decoders": _STEP | _COST,
    **dict.fromkeys(("residents", "kv_decode", "kv_prefill"), _STEP | {Moment.COST, Moment.ENGINE_COST}),
    "tokens": _COST | {Moment.CONNECTOR},
    **dict.fromkeys(("prefilled", "attention"), _COST),
    **dict.fromkeys(("decoding", "admission", "remaining"), _SERVE),
    **dict.fromkeys(
        ("scheduled", "context_decode", "context_prefill"), frozenset({Moment.ENGINE_COST, Moment.EXECUTOR})
    ),
    **dict.fromkeys(("prompt_tokens", "output_tokens", "computed_tokens", "preempted"), _WAITING),
    **dict.fromkeys(("priority", "class", "job"), _WAITING),
    "blocks": frozenset({Moment.CONNECTOR}),
}
"""Context variable -> the moments at which it has a value."""

ADDED_VARIABLES: Final = frozenset(
    {"scheduled", "context_decode", "context_prefill", "prompt_tokens", "output_tokens", "computed_tokens"}
    | {"preempted", "priority", "class", "job", "blocks"}
)
"""Variables that the base language does not have: outside of their moments a program may use the names."""

RESERVED_VARIABLES: Final = VARIABLES.keys() - ADDED_VARIABLES
"""Variables whose names no attribute may have (R-A-005)."""

SUPPLIED_ATTRIBUTES: Final = frozenset(
    {"serial", "turn_no", "cached", "computed", "new", "out", "think", "more", "forced"}
)
"""Attributes that every session has without the program's doing (R-A-005)."""

SCHEDULER_ATTRIBUTES: Final = frozenset({"cached", "computed"})
"""Supplied attributes that the deployment itself sets: they cannot be hidden, nor kept by a binding."""


def added_at(moment: Moment) -> frozenset[str]:
    """The variables beyond the base that have a value at a moment."""
    return frozenset(name for name in ADDED_VARIABLES if moment in VARIABLES[name])


def readable_at(variable: str) -> str:
    """Where a context variable can be read, for messages."""
    moments = VARIABLES[variable]
    return ", ".join(moment.rights.label for moment in Moment if moment in moments)
