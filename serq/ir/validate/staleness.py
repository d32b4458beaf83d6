"""The stale-header lint: a value read before a session waits is no measure of the state after (R-A-071)."""

from __future__ import annotations

from serq.ir.nodes import Attribute, Block, Expr, Hold, PoolRead, Reusable, Set, StageRead
from serq.ir.printer import expression
from serq.ir.validate.index import Index, blocks
from serq.ir.validate.problem import Findings
from serq.ir.walk import descendants

Latest = dict[str, PoolRead | StageRead | Reusable | None]
"""Attribute -> what its latest `set` reads of the deployment's state, None for nothing."""


class Staleness:
    """Looks for attributes that a hold's header reads and that were set from live state above it.

    Only the latest `set` in the text counts. Sets in a branch or a loop are seen inside it; the body of a
    hold starts afresh, as it runs on admission.
    """

    def __init__(self, index: Index, findings: Findings) -> None:
        self._index = index
        self._findings = findings

    def check(self) -> None:
        """The whole session."""
        with self._findings.inside("session"):
            self._block(self._index.program.session, {})

    def _block(self, block: Block, latest: Latest) -> None:
        for node in block:
            if isinstance(node, Set):
                latest[node.attribute] = _live(node.value)
            elif isinstance(node, Hold):
                self._header(node, latest)
            for inner in blocks(node):
                self._block(inner, {} if isinstance(node, Hold) else dict(latest))

    def _header(self, node: Hold, latest: Latest) -> None:
        read = [e for unit in node.units for e in (unit.units, unit.reserve)]
        for part in (*read, node.reuse, node.cache):
            for inner in () if part is None else descendants(part):
                if isinstance(inner, Attribute) and latest.get(inner.name) is not None:
                    self._stale(inner, latest[inner.name])

    def _stale(self, node: Attribute, source: Expr | None) -> None:
        assert source is not None
        message = (
            f"`{node.name}` was set from `{expression(source)}` before the session waited, "
            "and is read here when it is admitted"
        )
        help_ = f"for the value on admission write `at admission ({node.name} = …)`"
        self._findings.error("E421", message, node, help=help_)


def _live(value: Expr) -> PoolRead | StageRead | Reusable | None:
    for node in descendants(value):
        if isinstance(node, Reusable):
            return node
        if isinstance(node, PoolRead | StageRead) and node.function != "blocksize":
            return node
    return None
