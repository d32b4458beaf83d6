"""Words of the language that a program may not take for its own defs."""

from __future__ import annotations

from typing import Final, get_args

from serq.ir.expressions import ADDED_DISTRIBUTIONS, ENGINE_FUNCTIONS
from serq.ir.nodes import Distribution, Function, PoolFunction, RequestMetric, StageFunction

FUNCTIONS: Final = frozenset(get_args(Function))
DISTRIBUTIONS: Final = frozenset(get_args(Distribution))
POOL_FUNCTIONS: Final = frozenset(get_args(PoolFunction))
STAGE_FUNCTIONS: Final = frozenset(get_args(StageFunction))
REQUEST_METRICS: Final = frozenset(get_args(RequestMetric))

RETIRED_WORDS: Final = frozenset({"admit", "enter", "keep", "fit", "where"})
"""Words of earlier languages that name no value and no def; pools, stages, series may have them (R-A-004)."""

STATEMENT_WORDS: Final = (
    *("turn", "end", "request", "set", "observe", "hold", "grow", "load", "drop", "release", "run", "branch"),
    *("loop", "choose", "prefill", "decode", "tool", "transfer"),
)
"""Words that begin a statement."""

_STRUCTURE: Final = (
    "let def use pool stage workload session server share maxmin bottleneck run horizon warmup seed arrivals "
    "cap block evict lru by preempt none lifo queue fifo via spill when ps delay step budget chunk cost "
    "memory serve admission first exclusive arrive trace ordered init turn hidden poisson renewal closed "
    "batch end request set observe hold reserve reuse at cache lease grow load drop release prefill decode "
    "tool transfer on from to growing branch with else loop choose in"
)

LANGUAGE_WORDS: Final = (
    frozenset(_STRUCTURE.split())
    | FUNCTIONS
    | (DISTRIBUTIONS - ADDED_DISTRIBUTIONS)
    | POOL_FUNCTIONS
    | (STAGE_FUNCTIONS - ENGINE_FUNCTIONS)
    | RETIRED_WORDS
)
"""Words that a def or its parameter may not be named (R-A-004b). Words added later are not among them."""
