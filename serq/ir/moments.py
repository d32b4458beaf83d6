"""When an expression is evaluated, and what it may read then (R-A-032, R-A-033)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


@dataclass(frozen=True)
class Rights:
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
    GAP = Rights("the gap of a renewal process", attributes=False, hidden=False, live=False)

    @property
    def rights(self) -> Rights:
        """What may be read at this moment."""
        return self.value


_STEP: Final = frozenset({Moment.BUDGET, Moment.CHUNK, Moment.COST, Moment.SERVE_KEY, Moment.SERVE_ONLY})
_SERVE: Final = frozenset({Moment.SERVE_KEY, Moment.SERVE_ONLY})
_EVICTION: Final = frozenset({Moment.EVICT_KEY, Moment.SPILL})

VARIABLES: Final[dict[str, frozenset[Moment]]] = {
    "now": frozenset(moment for moment in Moment if moment.rights.live),
    "waited": frozenset({Moment.QUEUE_KEY}),
    **dict.fromkeys(("size", "age", "last", "waiting"), _EVICTION),
    "present": frozenset({Moment.CAPACITY}),
    **dict.fromkeys(("residents", "decoders", "kv_decode", "kv_prefill"), _STEP),
    **dict.fromkeys(("tokens", "prefilled", "attention"), frozenset({Moment.COST})),
    **dict.fromkeys(("decoding", "admission", "remaining"), _SERVE),
}
"""Context variable -> the moments at which it has a value."""

SUPPLIED_ATTRIBUTES: Final = frozenset(
    {"serial", "turn_no", "cached", "computed", "new", "out", "think", "more", "forced"}
)
"""Attributes that every session has without the program's doing (R-A-005)."""

SCHEDULER_ATTRIBUTES: Final = frozenset({"cached", "computed"})
"""Supplied attributes that the deployment itself sets: they cannot be hidden, nor kept by a binding."""


def readable_at(variable: str) -> str:
    """Where a context variable can be read, for messages."""
    moments = VARIABLES[variable]
    return ", ".join(moment.rights.label for moment in Moment if moment in moments)
