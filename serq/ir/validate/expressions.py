"""What expressions may read, and when (R-A-026 to R-A-033)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from serq.ir.expressions import ARITIES, ENGINE_FUNCTIONS, ReportRead
from serq.ir.figures import FIELDS
from serq.ir.fold import constant
from serq.ir.limits import MAX_MEMBERS
from serq.ir.moments import READS_REQUESTS, VARIABLES, Moment, readable_at
from serq.ir.nodes import (
    Aggregate,
    Attribute,
    Call,
    Draw,
    Expr,
    Local,
    Node,
    Number,
    Pool,
    PoolRead,
    PoolRef,
    RequestRead,
    Reusable,
    Stage,
    StageRead,
    StageRef,
    Step,
    Variable,
    Vllm,
)
from serq.ir.printer import figure, number, reference
from serq.ir.validate.handles import unknown_handle
from serq.ir.validate.index import Index, declared
from serq.ir.validate.problem import Findings
from serq.ir.walk import children

_SPREADS: Final[dict[str, tuple[int, str, Callable[[float], bool]]]] = {
    "gamma": (0, "a positive shape", lambda shape: shape > 0.0),
    "lognormal": (
        1,
        "a finite squared coefficient of variation, 0 or more",
        lambda cv2: 0.0 <= cv2 < math.inf,
    ),
}
"""Distribution -> which of its parameters is limited, and how; others take what they are given (R-B-102)."""


class Expressions:
    """Checks one expression after another."""

    def __init__(self, index: Index, findings: Findings) -> None:
        self._index = index
        self._findings = findings

    def check_all(self, expressions: tuple[Expr, ...], moment: Moment) -> None:
        """Several expressions of one moment."""
        for expression in expressions:
            self.check(expression, moment)

    def check(self, node: Expr | None, moment: Moment, bound: frozenset[str] = frozenset()) -> None:
        """An expression that is evaluated at a moment, inside aggregates that bind names."""
        pending: list[Node] = [] if node is None else [node]
        while pending:
            current = pending.pop()
            if self._check_one(current, moment, bound):
                pending.extend(reversed(list(children(current))))

    def _check_one(self, node: Node, moment: Moment, bound: frozenset[str]) -> bool:
        """Check one node; whether those inside it are still to be checked."""
        match node:
            case Number() if math.isnan(node.value):
                self._findings.error("E401", "NaN is not a number of a program", node)
            case Attribute():
                self._attribute(node, moment)
            case Variable():
                self._variable(node, moment)
            case Local() if node.name not in bound:
                self._findings.error("E401", f"no aggregate binds `{node.name}` here", node, whole=True)
            case Call():
                self._arity(node, node.function, len(node.arguments))
            case Draw():
                self._draw(node, moment)
            case PoolRead() | StageRead():
                self._read(node, moment, bound)
                return False
            case RequestRead() | Reusable():
                self._of_request(node, moment, bound)
                return False
            case ReportRead():
                self._figure(node, moment, bound)
                return False
            case Aggregate():
                self._count(node)
                self.check(node.count, moment, bound)
                self.check(node.body, moment, bound | {node.variable})
                return False
        return True

    # --- names ---

    def _attribute(self, node: Attribute, moment: Moment) -> None:
        name, rights = node.name, moment.rights
        if name not in self._index.attributes:
            self._findings.error("E401", f"no statement assigns the attribute `{name}`", node, whole=True)
        if not rights.attributes:
            message = f"`{name}` is an attribute of a session, and there is no session in {rights.label}"
            self._findings.error("E403", message, node)
        elif name in self._index.hidden and not rights.hidden:
            message = f"`{name}` is hidden from the deployment, and {rights.label} reads it"
            self._findings.error("E404", message, node)

    def _variable(self, node: Variable, moment: Moment) -> None:
        if node.name not in VARIABLES:
            self._findings.error("E401", f"unknown context variable `{node.name}`", node)
        elif moment not in VARIABLES[node.name]:
            message = f"`{node.name}` has no value in {moment.rights.label}"
            self._findings.error("E402", message, node, help=f"it can be read in {readable_at(node.name)}")

    def _draw(self, node: Draw, moment: Moment) -> None:
        self._arity(node, f"~{node.distribution}", len(node.arguments))
        if not moment.rights.draws:
            message = f"{moment.rights.label} may not draw"
            self._findings.error("E405", message, node, help="`set` an attribute to the draw and read that")
        if node.distribution in _SPREADS and len(node.arguments) == 2:
            place, what, possible = _SPREADS[node.distribution]
            spread = constant(node.arguments[place])
            if spread is not None and not possible(spread):
                message = f"`~{node.distribution}` needs {what}, not {number(spread)}"
                self._findings.error("E450", message, node.arguments[place])

    def _arity(self, node: Node, name: str, given: int) -> None:
        wanted = ARITIES[name.removeprefix("~")]
        if given != wanted:
            self._findings.error("E401", f"`{name}` takes {wanted} arguments, not {given}", node)

    def _count(self, node: Aggregate) -> None:
        count = constant(node.count)
        if count is not None and not (0 <= count <= MAX_MEMBERS and count == int(count)):
            message = f"an aggregate goes over a whole number of members, not {number(count)}"
            self._findings.error("E420", message, node.count)

    # --- pools and stages ---

    def _read(self, node: PoolRead | StageRead, moment: Moment, bound: frozenset[str]) -> None:
        ref = node.pool if isinstance(node, PoolRead) else node.stage
        self.reference(ref, moment, bound)
        if not moment.rights.live and node.function != "blocksize":
            what = "the report" if moment is Moment.EXPECT else "constants and draws"
            message = f"{moment.rights.label} reads {what} only, not `{node.function}(…)`"
            self._findings.error("E406", message, node)
        target = declared(self._index, ref)
        if target is None:
            return
        if node.function == "blocksize" and not isinstance(target, Stage) and target.block is None:
            self._findings.error("E411", f"pool `{target.name}` has no `block`", node)
        if node.function == "budget_left" and isinstance(target, Stage) and not isinstance(target.kind, Step):
            self._findings.error("E411", f"`{target.name}` is no step stage and has no budget", node)
        if node.function == "price":
            self._findings.error("E208", "`price` is not modelled", node)
        if isinstance(target, Stage):
            self._stage_function(node, target)

    def _stage_function(self, node: PoolRead | StageRead, stage: Stage) -> None:
        """Some functions are of engines only, and some engines do not have."""
        is_engine = isinstance(stage.kind, Vllm)
        if node.function in ENGINE_FUNCTIONS and not is_engine:
            message = f"`{stage.name}` is no vllm stage: it has no `{node.function}`"
            self._findings.error("E411", message, node)
        elif is_engine and node.function == "work":
            message = f"`work({stage.name})` would tell how long the outputs will be, which nobody knows"
            help_ = "`running`, `waiting` and `kv_usage` can be read"
            self._findings.error("E411", message, node, help=help_)
        elif is_engine and node.function.startswith("est_"):
            message = f"`{stage.name}` is a vllm stage: it has no `{node.function}`"
            self._findings.error("E411", message, node)

    def _of_request(self, node: RequestRead | Reusable, moment: Moment, bound: frozenset[str]) -> None:
        """What became of a request is read by the session that sent it."""
        if moment not in READS_REQUESTS:
            what = node.metric if isinstance(node, RequestRead) else "reusable"
            message = f"`{what}(…)` is of a session's own request, and {moment.rights.label} has none"
            self._findings.error("E403", message, node)
        if node.handle not in self._index.handles:
            message = f"no statement sends a request `{node.handle}`"
            help_ = unknown_handle(node.handle, self._index)
            self._findings.error("E435", message, node, help=help_, whole=True)
        if isinstance(node, Reusable):
            self.reference(node.stage, moment, bound)
            stage = self._index.stages.get(node.stage.name)
            if stage is not None and not isinstance(stage.kind, Vllm):
                self._findings.error("E411", f"`{stage.name}` is no vllm stage: it has no cache", node)

    def _figure(self, node: ReportRead, moment: Moment, bound: frozenset[str]) -> None:
        """A figure of the report: its row exists and has it."""
        shown = figure(node)
        if moment is not Moment.EXPECT:
            message = f"`{shown}` is a figure of the finished run, which {moment.rights.label} comes before"
            self._findings.error("E402", message, node)
        if node.field not in FIELDS[node.row]:
            self._findings.error("E401", f"no {node.row} has a figure `{node.field}`", node)
        elif node.row != "run" and node.name not in self._index.rows(node.row):
            self._findings.error("E401", f"unknown {node.row} `{node.name}`", node, whole=True)
        family = self._index.family(node)
        if family is not None:
            self._member_of(family, node, shown, node.index)
        elif node.index is not None:
            self._findings.error("E409", f"`{node.name or node.field}` is no family and has no members", node)
        self.check(node.index, moment, bound)

    def reference(self, ref: PoolRef | StageRef, moment: Moment, bound: frozenset[str] = frozenset()) -> None:
        """A pool or stage, and the member it means (R-A-031)."""
        what = "pool" if isinstance(ref, PoolRef) else "stage"
        target = declared(self._index, ref)
        if target is None:
            self._findings.error("E401", f"unknown {what} `{ref.name}`", ref, whole=True)
        else:
            self._member_of(target, ref, reference(ref), ref.index)
        self.check(ref.index, moment, bound)

    def _member_of(self, target: Pool | Stage, node: Node, shown: str, index: Expr | None) -> None:
        """Which member of a family is meant, where there are several, and whether there is such a one."""
        value, count = None if index is None else constant(index), target.count
        if index is None:
            if count > 1:
                message = f"`{target.name}` is a family of {count}: say which member"
                self._findings.error("E409", message, node, help=f"write `{target.name}[…]`")
        elif value is None:
            return
        elif not (math.isfinite(value) and value == int(value)):
            message = f"`{shown}`: an index is a whole number, not {number(value)}"
            self._findings.error("E410", message, index)
        elif not 0 <= value < count:
            members = "0" if count == 1 else f"0 to {count - 1}"
            message = f"`{shown}` is out of range: `{target.name}` has the members {members}"
            self._findings.error("E410", message, index)
