"""Loops and populations in which time certainly stands still (R-A-096).

Only what is certain is refused: a loop is left alone if any path through it may wait, work or end. The
guard of the running model finds the rest.
"""

from __future__ import annotations

import math

from serq.ir.fold import constant
from serq.ir.nodes import AnyStatement, Block, Branch, Closed, End, Grow, Hold, Loop, PoolRef, Request, Run
from serq.ir.validate.index import Index
from serq.ir.validate.problem import Findings


class Progress:
    """Looks for what repeats for ever at one instant."""

    def __init__(self, index: Index, findings: Findings) -> None:
        self._index = index
        self._findings = findings

    def check(self) -> None:
        """The loops of the session, and a closed population whose sessions take no time."""
        program = self._index.program
        for node in self._index.all_statements:
            if isinstance(node, Loop) and not any(self._may_leave(inner) for inner in node.body):
                message = "this loop never ends and lets no time pass"
                help_ = "a way through it must `run` for some time, wait, or `end`"
                self._findings.error("E423", message, node, help=help_, whole=True)
        arrive = program.workload.arrive
        if isinstance(arrive, Closed) and arrive.count and not self._takes_time(program.session):
            message = "a session takes no time here, and `closed` puts the next one in its place at once"
            self._findings.error("E424", message, arrive, whole=True)

    def _may_leave(self, node: AnyStatement) -> bool:
        """Whether time may pass in a statement, or the session may end there."""
        match node:
            case End():
                return True
            case Branch() | Loop():
                return any(self._may_leave(inner) for body in _bodies(node) for inner in body)
            case Hold() if any(map(self._may_leave, node.body)):
                return True
            case _:
                return self._may_wait(node)

    def _takes_time(self, block: Block) -> bool:
        """Whether time may pass in a session."""
        for node in block:
            if isinstance(node, Branch | Loop | Hold) and any(map(self._takes_time, _bodies(node))):
                return True
            if self._may_wait(node):
                return True
            if isinstance(node, End):
                return False
        return False

    def _may_wait(self, node: AnyStatement) -> bool:
        match node:
            case Request():
                return True
            case Run():
                return constant(node.work) != 0.0
            case Hold():
                return any(self._may_be_full(unit.pool) for unit in node.units)
            case Grow():
                return self._may_be_full(node.pool)
            case _:
                return False

    def _may_be_full(self, ref: PoolRef) -> bool:
        pool = self._index.pools.get(ref.name)
        return (
            pool is None
            or pool.capacity < math.inf
            or pool.admit_via is not None
            or bool(pool.block == math.inf)
        )


def _bodies(node: Branch | Loop | Hold) -> tuple[Block, ...]:
    """The blocks that may run."""
    if not isinstance(node, Branch):
        return (node.body,)
    guard = constant(node.condition)
    if guard == 1.0:
        return (node.then,)
    return (node.otherwise,) if guard == 0.0 else (node.then, node.otherwise)
