"""What a session holds: plans of hold statements, holds, their allocations, leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from serq.runtime.session import Session

if TYPE_CHECKING:
    from serq.runtime.clock import Ticket
    from serq.runtime.pool import Pool


class HoldPlan(msgspec.Struct, frozen=True):
    """A hold statement: functions of the session for its header and its clauses (R-A-050 to R-A-092)."""

    statement: int
    depth: int
    """How many holds stand around it."""
    pools: Callable[[Session], tuple[Pool, ...]]
    """Evaluated once, when the session joins (R-A-031)."""
    amounts: Callable[[Session], tuple[float, ...]]
    """Units and reserve of every pool, at every attempt (R-A-053)."""
    reuse: Callable[[Session], float] | None = None
    keep: Callable[[Session], float] | None = None
    """The `cache` clause, evaluated when units go back (R-A-081)."""
    leased: int | None = None
    duration: Callable[[Session], float] | None = None
    """Which pool of the hold outlives it, and for how long (R-A-092)."""


class Allocation:
    """The units of one pool that a hold has; ``units`` are rounded to blocks.

    ``position`` counts the tokens that are there: what the cache supplied, and what growing runs and loads
    added (R-A-078).
    """

    __slots__ = ("hold", "pool", "position", "returned", "units")

    def __init__(self, hold: Hold, pool: Pool, units: float, position: float) -> None:
        self.hold = hold
        self.pool = pool
        self.units = units
        self.position = position
        self.returned = False


class Hold:
    """One execution of a hold statement, from joining the queue of its first pool to its end."""

    __slots__ = (
        "allocations",
        "joined",
        "order",
        "plan",
        "pools",
        "resumed_on",
        "session",
        "tracked",
    )

    def __init__(self, plan: HoldPlan, session: Session, now: float) -> None:
        self.plan = plan
        self.session = session
        self.pools = plan.pools(session)
        self.joined = now
        self.order = 0
        """Place in the queue by joining."""
        self.allocations: list[Allocation] = []
        """Empty while waiting, then one for every pool."""
        self.tracked = False
        """Whether tokens were computed or loaded in it: positions are cached, not allocations (R-A-078)."""
        self.resumed_on: Pool | None = None
        """The pool of a growing run of no tokens in it: it had nothing left to compute there."""


class Lease:
    """An allocation that outlived its hold (R-A-092)."""

    __slots__ = ("allocation", "ticket")

    def __init__(self, allocation: Allocation) -> None:
        self.allocation = allocation
        self.ticket: Ticket | None = None


class Grower:
    """A session that waits for ``units`` more of ``pool`` (R-A-074, R-B-045)."""

    __slots__ = ("allocation", "granted", "session", "units")

    def __init__(
        self, session: Session, allocation: Allocation, units: float, granted: Callable[[], None]
    ) -> None:
        self.session = session
        self.allocation = allocation
        self.units = units
        self.granted = granted
        """What to do when it has them: let the session go on, or its run be served again."""


def innermost(session: Session, pool: Pool) -> Allocation | None:
    """The allocation of ``pool`` in the innermost open hold that still has it."""
    for hold in reversed(session.holds):
        for allocation in hold.allocations:
            if allocation.pool is pool and not allocation.returned:
                return allocation
    return None
