"""A `run` of tokens at an engine, and the batch of one iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serq.runtime.hold import Allocation
    from serq.runtime.pool import Pool
    from serq.runtime.session import Session


class TokenRun:
    """A resident of an engine: a session that runs `prefill` or `decode` there (R-B-020 to R-B-029)."""

    __slots__ = (
        "admission",
        "advanced",
        "decoding",
        "first_growth",
        "growing",
        "held",
        "joined",
        "order",
        "others",
        "remaining",
        "schedulable",
        "session",
        "since",
        "tokens",
    )

    def __init__(self, session: Session, tokens: float, decoding: bool, joined: float, order: int) -> None:
        self.session = session
        self.remaining = tokens
        """Tokens still to be computed; real-valued (R-B-027)."""
        self.decoding = decoding
        self.joined = joined
        self.order = order
        self.admission = session.admission
        self.tokens = 0.0
        """Tokens of the iteration that is formed or under way."""
        self.advanced = False
        """Whether tokens of it were ever under way."""
        self.schedulable = True
        """False while it waits for memory, and once it is gone."""
        self.growing: Allocation | None = None
        """The allocation that must reach position + tokens before tokens are granted (R-B-044)."""
        self.held: Allocation | None = None
        """What the session holds of the engine's memory, innermost (R-B-039)."""
        self.others: tuple[Allocation, ...] = ()
        """What it holds of it in outer holds."""
        self.since = self.first_growth = 0
        """In a group: the iterations before it joined, and that in which it first grows."""

    def find_memory(self, memory: Pool) -> None:
        """Look up what the session holds of ``memory``, that of the engine."""
        for hold in reversed(self.session.holds):
            for allocation in hold.allocations:
                if allocation.pool is not memory or allocation.returned:
                    continue
                if self.held is None:
                    self.held = allocation
                else:
                    self.others = (*self.others, allocation)

    def memory_units(self) -> float:
        """Units of the engine's memory that the session holds."""
        total = 0.0 if self.held is None else self.held.units
        for allocation in self.others:
            total += allocation.units
        return total


class TokenBatch:
    """The iteration that an engine forms: what is served, and the totals that expressions read (R-B-033)."""

    __slots__ = (
        "attention",
        "decoders",
        "grouped",
        "kv_decode",
        "kv_prefill",
        "preempted",
        "prefilled",
        "residents",
        "served",
        "tokens",
    )

    def __init__(self) -> None:
        self.served: list[TokenRun] = []
        """Runs with tokens, in the order in which they were served (R-B-028)."""
        self.grouped = 0
        """How many are served as members of a group, ahead of those in ``served``."""
        self.preempted = False
        self.residents = 0.0
        self.decoders = 0.0
        self.tokens = 0.0
        self.prefilled = 0.0
        self.kv_decode = 0.0
        self.kv_prefill = 0.0
        self.attention = 0.0

    @property
    def scheduled(self) -> int:
        """How many runs have tokens."""
        return self.grouped + len(self.served)
