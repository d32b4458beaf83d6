"""Which programs can run ahead of the clock: nobody who is served changes who comes, or where to."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from serq.ir import nodes
from serq.ir.walk import descendants
from serq.runtime.open_run.leaving import ClockReason

_CLAUSES_ON_THE_CLOCK: Final = ("follows", "fetched", "abort_after", "immediate", "skip_reading_prefix_cache")
"""Clauses of a request that an open run does not know."""

_COUNTS: Final = ("queue", "busy", "running", "waiting", "kv_usage")
"""What a session may read of an engine when it arrives."""

_PLAIN: Final = nodes.Set | nodes.Observe | nodes.Turn | nodes.End | nodes.Choose


def needs_clock(program: nodes.Program) -> ClockReason | None:
    """Why ``program`` must run on the clock; None: it can run ahead of it."""
    arrive = program.workload.arrive
    if isinstance(arrive, nodes.Closed) or arrive is None:
        return ClockReason.CLOSED
    if program.gauges:
        return ClockReason.GAUGES
    gap = (arrive.gap,) if isinstance(arrive, nodes.Renewal) else ()
    if _looks_around((*gap, *program.workload.init, *program.workload.turn)):
        return ClockReason.LOOKS
    walk = _Walk(frozenset(stage.name for stage in program.stages if isinstance(stage.kind, nodes.Vllm)))
    walk.block(program.session, False)
    return walk.reason


def _looks_around(parts: Iterable[nodes.Node], at: Collection[str] = ()) -> bool:
    """Whether any of ``parts`` reads pools, stages or caches, but for the counts of the stages ``at``."""
    return any(
        isinstance(node, nodes.PoolRead | nodes.Reusable)
        or (isinstance(node, nodes.StageRead) and not (node.function in _COUNTS and node.stage.name in at))
        for part in parts
        for node in descendants(part)
    )


class _Walk:
    """Goes through all ways of a session: one request, and before and after it only plain statements.

    Before it a session may read how ``engines`` stand, to choose one.
    """

    def __init__(self, engines: frozenset[str]) -> None:
        self.reason: ClockReason | None = None
        self._engines = engines

    def block(self, block: nodes.Block, sent: bool) -> bool:
        """Whether a request may have been sent after ``block``, if one was ``sent`` before it."""
        for statement in block:
            sent = self._statement(statement, sent)
        return sent

    def _statement(self, statement: nodes.AnyStatement, sent: bool) -> bool:
        if isinstance(statement, nodes.Request):
            return self._request(statement, sent)
        if isinstance(statement, nodes.Branch):
            self._check_looks(statement.condition, sent)
            then, otherwise = (self.block(block, sent) for block in (statement.then, statement.otherwise))
            return then or otherwise
        self._check_looks(statement, sent)
        if not isinstance(statement, _PLAIN) or (isinstance(statement, nodes.Observe) and not sent):
            self.reason = self.reason or ClockReason.STATEMENTS
        return sent

    def _request(self, request: nodes.Request, sent: bool) -> bool:
        if sent:
            self.reason = self.reason or ClockReason.STATEMENTS
        self._check_looks(request, sent)
        if any(getattr(request, clause) for clause in _CLAUSES_ON_THE_CLOCK) or request.accept:
            self.reason = self.reason or ClockReason.CLAUSES
        return True

    def _check_looks(self, node: nodes.Node, sent: bool) -> None:
        if _looks_around((node,), () if sent else self._engines):
            self.reason = self.reason or ClockReason.LOOKS
