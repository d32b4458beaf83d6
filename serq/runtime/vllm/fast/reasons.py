"""Why a step was formed by the walk and not planned ahead: the one list."""

from __future__ import annotations

from enum import Enum


class WalkReason(Enum):
    """The value is what a report says."""

    REFERENCE = "the reference engine was asked for"
    SCHEDULER = "the scheduler, or its queue, has rules of its own"
    GROUPS = "KV cache groups other than one of full attention"
    SPECULATION = "speculative decoding"
    CONNECTOR = "a KV connector"
    CADENCE = "prefills are held back in a cadence"
    STOP_RULE = "an end that lengths do not tell"
    BUDGET = "more running requests than the token budget holds"
    PRIORITY = "blocks may lack, and the least urgent request gives way"
    PAUSED = "the engine is paused"
    RANKS = "data-parallel ranks step together"
    ROWS = "the rows of every step are seen: by who prices it, or to be kept"
    LIMITS = "a budget or chunk that draws, or reads what changes"
    FRACTIONS = "tokens or units that are not whole"
    COST = "a cost that draws, or reads other state"
    START = "the engine starts, or runs dry"
    PREFILL = "prompts are computed"
    WAITING = "a waiting request may be admitted"
    QUOTED = "a prompt quotes what another request still says"
    FINISH = "a request ends"
    BLOCKS = "blocks run out"
    MESSAGE = "a request came or was aborted"
    TIE = "something else happens when a step ends"
    OTHERS = "somebody else asks anew at every event"
    LOOKAHEAD = "the plan looked no further"
    INSTANT = "a step takes no time that the clock can show"
