"""One simulated client run: a generator over its statements, its attributes, and what it holds."""

from __future__ import annotations

from collections.abc import Generator
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from serq.runtime.hold import Hold, Lease
    from serq.runtime.pool import Pool
    from serq.runtime.random import DrawStream
    from serq.runtime.serving.sent_request import SentRequest
    from serq.runtime.trace.columns import Trace


class Preempted(Exception):  # noqa: N818 - a signal, not an error
    """Thrown into a session: unwind to its hold number ``depth``, counted from outside, and restart it."""

    def __init__(self, depth: int) -> None:
        self.depth = depth


class Blocker(Protocol):
    """What a session can wait in: the queue of a pool, its growers, a stage."""

    def withdraw(self, session: Session) -> None:
        """Forget ``session``: it was preempted."""


class Session:
    """The state of a session. Attributes of the program are further slots of a subclass (`session_class`)."""

    __slots__ = (
        "a_cached",
        "a_computed",
        "a_forced",
        "a_more",
        "a_new",
        "a_out",
        "a_serial",
        "a_think",
        "a_turn_no",
        "admission",
        "blocked_on",
        "born",
        "draws",
        "generation",
        "holds",
        "instant",
        "leases",
        "live",
        "number",
        "preempted_at",
        "ready",
        "request_count",
        "requests",
        "restarting",
        "row",
        "rows_end",
        "statement_count",
        "statements",
        "stuck",
        "trace",
        "turn",
        "waiting_hold",
        "wakes",
        "workload_draws",
    )

    draws: DrawStream
    """Draws of session statements in the current turn; set where the program draws."""
    workload_draws: DrawStream
    statements: Generator[None, None, bool]

    def __init__(self, number: int) -> None:
        self.number = number
        """The serial number, whatever the program assigns to `serial` (R-B-073)."""
        self.live = True
        self.ready = False
        self.blocked_on: Blocker | None = None
        self.waiting_hold: Hold | None = None
        """The hold that stands in a queue for this session."""
        self.holds: list[Hold] = []
        """Open holds, outermost first."""
        self.leases: list[Lease] = []
        self.requests: dict[str, SentRequest] = {}
        """The latest request of every handle."""
        self.request_count = 0
        self.admission: float = inf
        """Number of the latest admission; infinite before the first (R-B-022)."""
        self.restarting = False
        """Set between a preemption and the hold that joins again."""
        self.preempted_at: dict[Pool, float] = {}
        """The position at the latest preemption, by pool; forgotten when a hold gives it back (R-A-079)."""
        self.stuck = False
        """Whether it was preempted twice at the same position (R-A-079)."""
        self.turn = 0
        """How many `turn;` were executed."""
        self.trace: Trace | None = None
        self.row = 0
        self.rows_end = 0
        """The rest of the trace session that is replayed, as rows of ``trace`` (R-B-081)."""
        self.born = 0.0
        self.generation = 0
        """How many sessions ended before this one at the instant at which it took their place."""
        self.instant = -1.0
        self.wakes = 0
        self.statement_count = 0
        """Work at one instant, guarded by the world: instant, wake-ups, statements in loops."""
        self.a_serial = float(number)
        self.a_turn_no = 0.0
        self.a_cached = 0.0
        self.a_computed = 0.0
        self.a_new = 0.0
        self.a_out = 0.0
        self.a_think = 0.0
        self.a_more = 0.0
        self.a_forced = 0.0


def session_class(attributes: dict[str, str]) -> type[Session]:
    """The class of sessions of a program: one slot for each of its attributes, all starting at 0 (R-A-005).

    ``attributes`` maps the names of the program to the names of the slots.
    """
    slots = tuple(slot for slot in attributes.values() if slot not in Session.__slots__)
    lines = ["def start(self, number):", "    base(self, number)"]
    lines += [f"    self.{slot} = 0.0" for slot in slots]
    namespace: dict[str, Any] = {"base": Session.__init__}
    exec("\n".join(lines), namespace)
    return type("ProgramSession", (Session,), {"__slots__": slots, "__init__": namespace["start"]})
