"""Which programs can run ahead of the clock: nobody who is served changes who comes, or where to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from serq.ir import nodes
from serq.ir.walk import descendants

_CLAUSES_ON_THE_CLOCK: Final = ("follows", "fetched", "abort_after", "immediate", "skip_reading_prefix_cache")
"""Clauses of a request that an open run does not know."""

_PLAIN: Final = nodes.Set | nodes.Observe | nodes.Turn | nodes.End | nodes.Choose


def leaves_for(program: nodes.Program) -> str | None:
    """Why ``program`` must run on the clock; None: it can run ahead of it."""
    if isinstance(program.workload.arrive, nodes.Closed) or program.workload.arrive is None:
        return "sessions come when others end"
    if program.gauges:
        return "a gauge looks at every instant"
    arrive = program.workload.arrive
    if isinstance(arrive, nodes.Renewal) and _looks_around((arrive.gap,)):
        return "gaps depend on what happens"
    if _looks_around((*program.workload.init, *program.workload.turn)):
        return "sessions look around when they come"
    return _of_session(program.session)


def _looks_around(parts: Iterable[nodes.Node]) -> bool:
    """Whether any of ``parts`` reads pools, stages, or what is cached."""
    reads = nodes.PoolRead | nodes.StageRead | nodes.Reusable
    return any(isinstance(node, reads) for part in parts for node in descendants(part))


def _of_session(block: nodes.Block) -> str | None:
    """Why a session is not one request, and notes of it."""
    walk = _Walk()
    walk.block(block, False)
    return walk.reason


class _Walk:
    """Goes through all ways of a session."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def block(self, block: nodes.Block, sent: bool) -> bool:
        """Whether a request may have been sent after ``block``, if one was ``sent`` before it."""
        for statement in block:
            sent = self._statement(statement, sent)
        return sent

    def _statement(self, statement: nodes.AnyStatement, sent: bool) -> bool:
        if isinstance(statement, nodes.Request):
            return self._request(statement, sent)
        if isinstance(statement, nodes.Branch):
            self._check(_looks_around((statement.condition,)), "a session looks around")
            then, otherwise = (self.block(block, sent) for block in (statement.then, statement.otherwise))
            return then or otherwise
        self._check(not isinstance(statement, _PLAIN), "a session does more than send a request")
        self._check(_looks_around((statement,)), "a session looks around")
        self._check(isinstance(statement, nodes.Observe) and not sent, "something is observed before a request")
        return sent

    def _request(self, request: nodes.Request, sent: bool) -> bool:
        self._check(sent, "a session sends more than one request")
        unknown = any(getattr(request, clause) for clause in _CLAUSES_ON_THE_CLOCK) or bool(request.accept)
        self._check(unknown, "a request may end, begin or go on in other ways")
        self._check(_looks_around((request,)), "a session looks around")
        return True

    def _check(self, found: bool, reason: str) -> None:
        if found and self.reason is None:
            self.reason = reason
