"""Warnings: what is legal and probably not meant."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final

from serq.ir.fold import constant
from serq.ir.nodes import (
    Aggregate,
    Attribute,
    Binary,
    Block,
    Call,
    Choose,
    Conditional,
    Draw,
    Expr,
    Hold,
    HoldUnit,
    Node,
    Number,
    PoolRef,
    Set,
    StageRef,
    Unary,
)
from serq.ir.printer import expression, number, reference
from serq.ir.validate.index import Index, blocks
from serq.ir.validate.problem import Findings
from serq.ir.walk import children, descendants

_WHOLE_FUNCTIONS = frozenset({"floor", "ceil"})
_PASSING_FUNCTIONS = frozenset({"min", "max", "abs"})
_HUGE_EXPONENT: Final = 20.0
"""From here on `exp` of a constant is more than 4e8: no time, length or weight that anybody means."""


class Suspicion:
    """Looks through a legal program."""

    def __init__(self, index: Index, findings: Findings) -> None:
        self._index = index
        self._findings = findings

    def check(self) -> None:
        """Holds without a cache that read one, indices that lose a fraction or leave a family, holds that
        never fit, and `exp` of a large constant, where a draw is meant.
        """
        with self._findings.inside("session"):
            self._block(self._index.program.session)
        for node in descendants(self._index.program):
            if isinstance(node, PoolRef | StageRef) and node.index is not None:
                self._index_of(node, node.index)
            elif isinstance(node, Choose):
                self._candidates(node)
            elif isinstance(node, Call) and node.function == "exp":
                self._exponential(node)

    # --- holds without `cache` (R-A-082) ---

    def _block(self, block: Block) -> None:
        for node in block:
            if isinstance(node, Hold):
                self._hold(node)
            for inner in blocks(node):
                self._block(inner)

    def _hold(self, node: Hold) -> None:
        for unit in node.units:
            self._never_fits(unit)
        if node.cache is not None:
            return
        if node.reuse is not None:
            message = "this hold reuses what is cached and keeps nothing: it has no `cache` clause"
            self._findings.warning("W602", message, node.reuse, help="add `cache (…)` behind its body")
        header = [e for unit in node.units for e in (unit.pool, unit.units, unit.reserve)]
        for part in (*header, *node.body):
            read = None if part is None else _cached_read(part)
            if read is not None:
                message = "`cached` is read in a hold that keeps nothing: it has no `cache` clause"
                self._findings.warning("W602", message, read, help="add `cache (…)` behind its body")
                return

    def _never_fits(self, unit: HoldUnit) -> None:
        pool = self._index.pools.get(unit.pool.name)
        amounts = [constant(e) for e in (unit.units, unit.reserve) if e is not None]
        if pool is None:
            return
        for amount in amounts:
            if amount is not None and amount < math.inf and _rounded(amount, pool.block) > pool.capacity:
                what = f"{number(amount)} units never fit into `{reference(unit.pool)}`"
                message = f"{what} of {number(pool.capacity)}: every session is rejected here"
                self._findings.warning("W604", message, unit)

    # --- indices (R-A-031) ---

    def _index_of(self, ref: PoolRef | StageRef, index: Expr) -> None:
        if constant(index) is None and self._fractional(index, self._fractional_attributes):
            message = f"the index `{expression(index)}` of `{ref.name}` may have a fraction, which is cut off"
            self._findings.warning("W603", message, index, help="write `floor(…)` where that is meant")

    def _candidates(self, node: Choose) -> None:
        """A key that is taken of every candidate, and candidates beyond the family (R-A-031, R-A-097)."""
        count = constant(node.count)
        if count is None or not math.isfinite(count):
            return
        for ref in (ref for key in node.keys for ref in _surely_read(key)):
            target = (self._index.pools if isinstance(ref, PoolRef) else self._index.stages).get(ref.name)
            if ref.index == Attribute(node.attribute) and target is not None and count > target.count:
                members = f"{target.count} member{'s' if target.count > 1 else ''}"
                message = f"`{node.attribute}` goes to {number(count - 1)}, and `{ref.name}` has {members}"
                help_ = f"write `choose {node.attribute} in {target.count}`: indices begin at 0"
                self._findings.warning("W607", f"{message}: the run stops here", ref.index, help=help_)
                return

    # --- draws that are not written as such ---

    def _exponential(self, node: Call) -> None:
        value = constant(node.arguments[0]) if len(node.arguments) == 1 else None
        if value is not None and value >= _HUGE_EXPONENT:
            result = constant(node)
            assert result is not None
            shown = f"`{expression(node)}` is e to the power {number(value)}, {result:.2g}"
            self._findings.warning("W609", shown, node, help=f"write `~{expression(node)}` to draw")

    @cached_property
    def _fractional_attributes(self) -> frozenset[str]:
        """The attributes that some `set` gives a value with a fraction."""
        sets = [node for node in self._index.all_statements if isinstance(node, Set)]
        found: frozenset[str] = frozenset()
        while True:
            more = found | {node.attribute for node in sets if self._fractional(node.value, found)}
            if more == found:
                return found
            found = more

    def _fractional(self, node: Expr, attributes: frozenset[str]) -> bool:
        """Whether a value probably has a fraction at times."""
        pending = [node]
        while pending:
            current = pending.pop()
            if _has_fraction(current, attributes):
                return True
            pending += _passed_on(current)
        return False


def _surely_read(key: Expr) -> list[PoolRef | StageRef]:
    """The pools and stages that an expression reads whatever the state; lazy sides may not be taken."""
    found: list[PoolRef | StageRef] = []
    pending: list[Node] = [key]
    while pending:
        current = pending.pop()
        match current:
            case PoolRef() | StageRef():
                found.append(current)
            case Conditional():
                pending.append(current.condition)
            case Binary(operator="&&" | "||"):
                pending.append(current.left)
            case Aggregate():
                pending.append(current.count)
            case _:
                pending += children(current)
    return found


def _has_fraction(node: Expr, attributes: frozenset[str]) -> bool:
    """Whether a value probably has a fraction, whatever its operands are."""
    match node:
        case Number():
            return math.isfinite(node.value) and node.value != int(node.value)
        case Attribute():
            return node.name in attributes
        case Draw():
            return node.distribution not in ("bernoulli", "det")
        case Binary():
            return node.operator == "/"
        case Call():
            return node.function not in _WHOLE_FUNCTIONS | _PASSING_FUNCTIONS | {"pow"}
        case _:
            return False


def _passed_on(node: Expr) -> tuple[Expr, ...]:
    """The operands whose fraction is one of the whole."""
    match node:
        case Unary(operator="-"):
            return (node.operand,)
        case Binary(operator="+" | "-" | "*"):
            return (node.left, node.right)
        case Conditional():
            return (node.then, node.otherwise)
        case Call() if node.function in _PASSING_FUNCTIONS:
            return node.arguments
        case Aggregate():
            return (node.body,)
        case _:
            return ()


def _cached_read(node: Node) -> Node | None:
    """Where `cached` is read under a node, not inside a hold of its own."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Attribute) and current.name == "cached":
            return current
        if not isinstance(current, Hold):
            stack.extend(children(current))
    return None


def _rounded(units: float, block: float | None) -> float:
    """``units`` in whole blocks; as they are where the block is one that is refused elsewhere."""
    if block is None or not 0.0 < block < math.inf or not math.isfinite(units / block):
        return units
    return math.ceil(units / block) * block
