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

_DEEPEST: Final = 80
"""Branches in branches: Python indents a text no more than 100 times."""


def needs_clock(program: nodes.Program) -> ClockReason | None:
    """Why ``program`` must run on the clock; None: it can run ahead of it."""
    arrive, workload = program.workload.arrive, program.workload
    if program.gauges:
        return ClockReason.GAUGES
    gap = (arrive.gap,) if isinstance(arrive, nodes.Renewal) else ()
    if _looks_around((*gap, *workload.init, *workload.turn)):
        return ClockReason.LOOKS
    if not all(isinstance(statement, nodes.Set) for statement in (*workload.init, *workload.turn)):
        return ClockReason.STATEMENTS
    walk = _Walk(frozenset(stage.name for stage in program.stages if isinstance(stage.kind, nodes.Vllm)))
    walk.block(program.session, _NOT_SENT, 0)
    return walk.reason


def _looks_around(parts: Iterable[nodes.Node], at: Collection[str] = ()) -> bool:
    """Whether any of ``parts`` reads pools, stages or caches, but for the counts of the stages ``at``."""
    return any(
        isinstance(node, nodes.PoolRead | nodes.Reusable)
        or (isinstance(node, nodes.StageRead) and not (node.function in _COUNTS and node.stage.name in at))
        for part in parts
        for node in descendants(part)
    )


_Ways = frozenset[bool]
"""Whether a session has sent its request when it comes to a place: on each way there."""
_NOT_SENT: Final[_Ways] = frozenset({False})
_SENT: Final[_Ways] = frozenset({True})
_NO_WAY: Final[_Ways] = frozenset()


class _Walk:
    """Goes through all ways of a session: one request, and before and after it only plain statements.

    Before it a session may read how ``engines`` stand, to choose one, and turn; after it, observe.
    """

    def __init__(self, engines: frozenset[str]) -> None:
        self.reason: ClockReason | None = None
        self._engines = engines

    def block(self, block: nodes.Block, ways: _Ways, depth: int) -> _Ways:
        """The ways out of ``block``, into which lead ``ways``."""
        for statement in block:
            if not ways:  # nobody comes here
                self.reason = self.reason or ClockReason.STATEMENTS
            ways = self._statement(statement, ways, depth)
        return ways

    def _statement(self, statement: nodes.AnyStatement, ways: _Ways, depth: int) -> _Ways:
        match statement:
            case nodes.Request():
                self._request(statement, ways)
                return _SENT
            case nodes.End():
                return _NO_WAY
            case nodes.Branch(condition=condition, then=then, otherwise=otherwise) if depth < _DEEPEST:
                self._check_looks(condition, ways)
                return self.block(then, ways, depth + 1) | self.block(otherwise, ways, depth + 1)
            case nodes.Set() | nodes.Choose():
                pass
            case nodes.Turn() if True not in ways:
                pass
            case nodes.Observe() if False not in ways:
                pass
            case _:
                self.reason = self.reason or ClockReason.STATEMENTS
        self._check_looks(statement, ways)
        return ways

    def _request(self, request: nodes.Request, ways: _Ways) -> None:
        if True in ways:
            self.reason = self.reason or ClockReason.STATEMENTS
        self._check_looks(request, ways)
        if any(getattr(request, clause) for clause in _CLAUSES_ON_THE_CLOCK) or request.accept:
            self.reason = self.reason or ClockReason.CLAUSES

    def _check_looks(self, node: nodes.Node, ways: _Ways) -> None:
        if _looks_around((node,), () if True in ways else self._engines):
            self.reason = self.reason or ClockReason.LOOKS
