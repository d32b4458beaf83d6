"""The words of the language as editors colour them; names of options come from their tables."""

from __future__ import annotations

from typing import Final

from serq.grammar.names import DISTRIBUTIONS, FUNCTIONS, POOL_FUNCTIONS, REQUEST_METRICS, STAGE_FUNCTIONS
from serq.ir.engine_options import (
    CONNECTOR_OPTIONS,
    ENGINE_OPTIONS,
    GROUP_OPTIONS,
    OPTION_FAMILIES,
    WAITING_OPTIONS,
)
from serq.ir.moments import SUPPLIED_ATTRIBUTES, VARIABLES

_DECLARATIONS: Final = (
    "let def use pool stage workload session server share run executor connector gauge slo expect"
)
_STATEMENTS: Final = (
    "turn end request set observe hold grow load drop release branch loop choose prefill decode tool "
    "transfer else with"
)
_STRUCTURE: Final = (
    "maxmin bottleneck horizon warmup seed arrivals cap block evict lru by preempt none lifo queue fifo "
    "admit via spill when ps delay step vllm budget chunk cost memory serve admission first exclusive only "
    "arrive trace ordered init hidden poisson renewal closed batch on reserve reuse at cache lease growing "
    "from to in for class within follows traced"
)

DECLARATIONS: Final = frozenset(_DECLARATIONS.split())
"""Words that begin an item of a program."""

STATEMENTS: Final = frozenset(_STATEMENTS.split())
"""Words that begin a statement, or the other arm of one."""

STRUCTURE: Final = frozenset(_STRUCTURE.split())
"""Words inside items and statements."""

KEYWORDS: Final = DECLARATIONS | STATEMENTS | STRUCTURE

AGGREGATES: Final = frozenset({"max", "min", "sum"})
CALLABLE: Final = FUNCTIONS | POOL_FUNCTIONS | STAGE_FUNCTIONS | REQUEST_METRICS | AGGREGATES | {"reusable"}
"""Names before `(`: functions, live reads, readings of a request, aggregates."""

DRAWS: Final = DISTRIBUTIONS
"""Names behind `~`."""

READINGS: Final = frozenset(VARIABLES) | SUPPLIED_ATTRIBUTES
"""Names that the model supplies."""

OPTIONS: Final = frozenset(
    {*ENGINE_OPTIONS, *GROUP_OPTIONS, *CONNECTOR_OPTIONS, *OPTION_FAMILIES}
    | {name for table in WAITING_OPTIONS.values() for name in table}
    | WAITING_OPTIONS.keys()
)
"""Options of engines and connectors."""
