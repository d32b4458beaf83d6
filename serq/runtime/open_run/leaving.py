"""Why a run is on the clock, and not ahead of it: the one list, and the way out of an open run."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serq.runtime.serving.engines import EngineMode, Engines


class ClockReason(Enum):
    """The value is what a report says."""

    ASKED = "engines on the clock were asked for"
    ROWS = "the rows of every step are kept"
    NO_ENGINES = "no `vllm` stage"
    CLOSED = "a session whose place another takes was sent away, or sent no request"
    GAUGES = "a gauge looks at every instant"
    LOOKS = "somebody looks at the state of pools or stages"
    STATEMENTS = "sessions hold something, or work elsewhere than at engines and delays"
    CLAUSES = "a request may begin, end or go on in other ways"
    ENGINE = "an engine has a scheduler, an order of waiting, a cost or a cache of its own kind"
    STOP = "an end that lengths do not tell"
    ORDER = "decodes behind a prompt may find no tokens or blocks"
    AGAIN = "a request gives way again and again"
    NO_TOKENS = "a step without tokens"
    NO_TIME = "a step takes no time"
    TIE = "something else happens at the instant at which a step ends"
    ERROR = "something is wrong, or never fits"
    NOT_DRAINED = "the arrivals asked for have not all ended"


class LeaveOpenRun(Exception):  # noqa: N818 - a signal, not an error
    """Something came that only engines on the clock know how to do; the run begins anew there."""

    def __init__(self, reason: ClockReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


def known_reason(mode: EngineMode, keep_rows: bool, serving: Engines) -> ClockReason | None:
    """Why a run with these engines is on the clock, before anybody looks closer; None: it need not be."""
    if mode in ("reference", "planned"):
        return ClockReason.ASKED
    if keep_rows:
        return ClockReason.ROWS
    return None if serving.engines else ClockReason.NO_ENGINES
