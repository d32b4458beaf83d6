"""Bounds that every program keeps, so that whatever walks one needs no guard of its own."""

from typing import Final

MAX_DEPTH: Final = 100
"""How deep expressions may be nested, and how deep blocks; a chain is one level, however long it is."""

MAX_CHAIN: Final = 5_000
"""How many operands a chain of operators of one rank may have, and how many arms a chain of `?:`."""

MAX_MEMBERS: Final = 1_000_000
"""How many members a family may have, and how many sessions may be present at once from the start."""
