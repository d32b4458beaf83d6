"""Which programs can run ahead of the clock: nobody who is served changes who comes, or where to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from serq.ir import nodes
from serq.ir.walk import descendants
from serq.runtime.open_run.leaving import ClockReason

_CLAUSES_ON_THE_CLOCK: Final = ("follows", "fetched", "abort_after", "immediate", "skip_reading_prefix_cache")
"""Clauses of a request that an open run does not know."""

_PLAIN: Final = nodes.Set | nodes.Observe | nodes.Turn | nodes.End | nodes.Choose


def needs_clock(program: nodes.Program) -> ClockReason | None:
    """Why ``program`` must run on the clock; None: it can run ahead of it."""
    arrive = program.workload.arrive
    if isinstance(arrive, nodes.Closed) or arrive is None:
        return ClockReason.CLOSED
    if program.gauges:
        return ClockReason.GAUGES
    gap = (arrive.gap,) if isinstance(arrive, nodes.Renewal) else ()
    if _looks_around((*gap, *program.workload.init, *program.workload.turn, *program.session)):
        return ClockReason.LOOKS
    walk = _Walk()
    walk.block(program.session, False)
    return walk.reason


def _looks_around(parts: Iterable[nodes.Node]) -> bool:
    """Whether any of ``parts`` reads pools, stages, or what is cached."""
    reads = nodes.PoolRead | nodes.StageRead | nodes.Reusable
    return any(isinstance(node, reads) for part in parts for node in descendants(part))


class _Walk:
    """Goes through all ways of a session: one request, and before and after it only plain statements."""

    def __init__(self) -> None:
        self.reason: ClockReason | None = None

    def block(self, block: nodes.Block, sent: bool) -> bool:
        """Whether a request may have been sent after ``block``, if one was ``sent`` before it."""
        for statement in block:
            sent = self._statement(statement, sent)
        return sent

    def _statement(self, statement: nodes.AnyStatement, sent: bool) -> bool:
        if isinstance(statement, nodes.Request):
            return self._request(statement, sent)
        if isinstance(statement, nodes.Branch):
            then, otherwise = (self.block(block, sent) for block in (statement.then, statement.otherwise))
            return then or otherwise
        if not isinstance(statement, _PLAIN) or (isinstance(statement, nodes.Observe) and not sent):
            self.reason = self.reason or ClockReason.STATEMENTS
        return sent

    def _request(self, request: nodes.Request, sent: bool) -> bool:
        if sent:
            self.reason = self.reason or ClockReason.STATEMENTS
        if any(getattr(request, clause) for clause in _CLAUSES_ON_THE_CLOCK) or request.accept:
            self.reason = self.reason or ClockReason.CLAUSES
        return True
