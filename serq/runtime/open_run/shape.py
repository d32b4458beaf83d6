"""Which programs can run ahead of the clock: nobody but engines needs to know what steps do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from serq.ir import nodes
from serq.ir.walk import descendants, statements
from serq.runtime.open_run.leaving import ClockReason

_CLAUSES_ON_THE_CLOCK: Final = ("fetched", "abort_after", "immediate", "skip_reading_prefix_cache")
"""Clauses of a request that an open run does not know."""

_COUNTS: Final = ("queue", "busy", "running", "waiting", "kv_usage")
"""What a session may read of an engine when it arrives."""

_DEEPEST: Final = 80
"""Branches in branches: Python indents a text no more than 100 times."""


def needs_clock(program: nodes.Program) -> ClockReason | None:
    """Why ``program`` must run on the clock; None: engines can run ahead of it."""
    if program.gauges:
        return ClockReason.GAUGES
    arrive, workload = program.workload.arrive, program.workload
    gap = (arrive.gap,) if isinstance(arrive, nodes.Renewal) else ()
    if _looks_around((*gap, *workload.init, *workload.turn)):
        return ClockReason.LOOKS
    if sends_one_request(program):
        return None
    others = [stage for stage in program.stages if not isinstance(stage.kind, nodes.Vllm)]
    if program.connectors or not all(isinstance(stage.kind, nodes.Delay) for stage in others):
        return ClockReason.STATEMENTS
    engines = _engines(program)
    for statement in statements(program.session):
        reason = _needs_clock(statement, engines)
        if reason is not None:
            return reason
    return None


def sends_one_request(program: nodes.Program) -> bool:
    """Whether every session only chooses where to send its one request, and notes what came of it."""
    workload = program.workload
    if not all(isinstance(statement, nodes.Set) for statement in (*workload.init, *workload.turn)):
        return False
    walk = _Walk(_engines(program))
    walk.block(program.session, _NOT_SENT, 0)
    return walk.fits


def _engines(program: nodes.Program) -> frozenset[str]:
    return frozenset(stage.name for stage in program.stages if isinstance(stage.kind, nodes.Vllm))


def _needs_clock(statement: nodes.AnyStatement, engines: Collection[str]) -> ClockReason | None:
    """Why sessions with ``statement`` must run on the clock, with the ``engines`` that serve them."""
    match statement:
        case nodes.Branch(condition=condition):
            return ClockReason.LOOKS if _looks_around((condition,), engines) else None
        case nodes.Loop():
            return None
        case nodes.Request(follows=follows, prefix=prefix, traced=traced):
            if _has_other_clauses(statement) or (follows and (prefix or traced)):
                return ClockReason.CLAUSES
        case nodes.Run(mode=None, stages=(_,)) | nodes.Set() | nodes.Observe():
            pass
        case nodes.Choose() | nodes.Turn() | nodes.End():
            pass
        case _:
            return ClockReason.STATEMENTS
    return ClockReason.LOOKS if _looks_around((statement,), engines) else None


def _has_other_clauses(request: nodes.Request) -> bool:
    return bool(request.accept) or any(getattr(request, clause) for clause in _CLAUSES_ON_THE_CLOCK)


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
        self.fits = True
        self._engines = engines

    def block(self, block: nodes.Block, ways: _Ways, depth: int) -> _Ways:
        """The ways out of ``block``, into which lead ``ways``."""
        for statement in block:
            ways = self._statement(statement, ways, depth)
        return ways

    def _statement(self, statement: nodes.AnyStatement, ways: _Ways, depth: int) -> _Ways:
        if not ways:  # nobody comes here
            self.fits = False
        match statement:
            case nodes.Request(follows=follows):
                if True in ways or follows or _has_other_clauses(statement):
                    self.fits = False
                self._check_looks(statement, ways)
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
                self.fits = False
        self._check_looks(statement, ways)
        return ways

    def _check_looks(self, node: nodes.Node, ways: _Ways) -> None:
        if _looks_around((node,), () if True in ways else self._engines):
            self.fits = False
