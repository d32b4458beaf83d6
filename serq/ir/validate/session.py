"""Statements: where they may stand and what their amounts may be (R-A-050 to R-A-097, R-B-015, R-B-065)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from serq.ir.fold import constant
from serq.ir.limits import MAX_MEMBERS
from serq.ir.moments import RESERVED_VARIABLES, Moment
from serq.ir.nodes import (
    Block,
    Branch,
    Choose,
    Expr,
    Grow,
    Hold,
    Load,
    Number,
    Observe,
    PoolRef,
    ProcessorSharing,
    Release,
    Request,
    Run,
    Set,
    StageRef,
    Step,
    Vllm,
)
from serq.ir.printer import expression, number, reference, statement
from serq.ir.validate.expressions import Expressions
from serq.ir.validate.index import Index, blocks
from serq.ir.validate.problem import Findings
from serq.ir.validate.requests import Requests
from serq.ir.walk import alike

Holds = tuple[Hold, ...]
"""The holds around a statement, outermost first."""


class Session:
    """Checks the statements of the workload and of the session."""

    def __init__(self, index: Index, findings: Findings, expressions: Expressions) -> None:
        self._index = index
        self._findings = findings
        self._expressions = expressions
        self._requests = Requests(index, findings, expressions)
        self._moment = Moment.STATEMENT
        self._leased = [
            hold.units[hold.lease.unit].pool
            for hold in index.all_statements
            if isinstance(hold, Hold) and hold.lease is not None and hold.lease.unit < len(hold.units)
        ]
        self._misnamed: set[str] = set()
        self._methods: dict[type, Callable[[Any, Holds], None]] = {
            Set: self._set,
            Observe: self._observe,
            Hold: self._hold,
            Grow: self._grow,
            Load: self._load,
            Release: self._release,
            Run: self._run,
            Request: self._request,
            Branch: self._branch,
            Choose: self._choose,
        }

    def check(self) -> None:
        """All statements of the program, and how the stages of flows share."""
        workload = self._index.program.workload
        self._moment = Moment.WORKLOAD
        self._block((*workload.init, *workload.turn), "workload", ())
        self._moment = Moment.STATEMENT
        self._block(self._index.program.session, "session", ())
        self._share()

    def _block(self, block: Block, section: str, holds: Holds) -> None:
        for node in block:
            with self._findings.inside(f"{section}, statement {node.id} (`{statement(node)[:60]}`)"):
                method = self._methods.get(type(node))
                if method is not None:
                    method(node, holds)
                elif hasattr(node, "pool"):
                    self._expressions.reference(node.pool, self._moment)
            inner = (*holds, node) if isinstance(node, Hold) else holds
            for body in blocks(node):
                self._block(body, section, inner)

    # --- values ---

    def _set(self, node: Set, holds: Holds) -> None:
        self._named(node)
        self._expressions.check(node.value, self._moment)

    def _observe(self, node: Observe, holds: Holds) -> None:
        self._expressions.check(node.value, self._moment)

    def _named(self, node: Set | Choose) -> None:
        """An attribute is not named like what the language supplies for every expression (R-A-005)."""
        name = node.attribute
        if name in self._misnamed or not (name in RESERVED_VARIABLES or name == "inf"):
            return
        self._misnamed.add(name)
        message = f"`{name}` is a name that the language supplies; an attribute of that name would hide it"
        self._findings.error("E407", message, node, "attribute", help="choose another name")

    def _amount(self, node: Expr, what: str) -> None:
        """Units, tokens and seconds are numbers from 0."""
        value = constant(node)
        if value is not None and not value >= 0:
            message = f"{what} must not be negative or NaN, and `{expression(node)}` is {number(value)}"
            self._findings.error("E412", message, node)

    def _choose(self, node: Choose, holds: Holds) -> None:
        self._named(node)
        self._expressions.check(node.count, self._moment)
        self._expressions.check_all(node.keys, Moment.CHOOSE_KEY)
        count = constant(node.count)
        if count is not None and not (abs(count) <= MAX_MEMBERS and count == int(count)):
            message = f"`choose` goes over a whole number of candidates, not {number(count)}"
            self._findings.error("E420", message, node.count)

    def _branch(self, node: Branch, holds: Holds) -> None:
        """A guard is 0 or 1; only a plain constant is refused, others stop the run (R-A-095)."""
        guard = node.condition
        self._expressions.check(guard, self._moment)
        value = constant(guard)
        if value is None or value in (0.0, 1.0):
            return
        message = f"a guard is 0 or 1, and this one is {number(value)}"
        if isinstance(guard, Number):
            help_ = f"a chance is written `branch with ({number(value)})`" if 0 < value < 1 else None
            self._findings.error("E419", message, guard, help=help_)
        else:
            self._findings.warning("W605", f"{message}: the run stops here", guard)

    # --- holds ---

    def _hold(self, node: Hold, holds: Holds) -> None:
        check = self._expressions.check
        if not node.units:
            self._findings.error("E431", "a hold needs a pool", node)
        for unit in node.units:
            self._expressions.reference(unit.pool, self._moment)
            check(unit.units, Moment.HEADER)
            check(unit.reserve, Moment.HEADER)
            self._amount(unit.units, "units")
            if unit.reserve is not None:
                self._amount(unit.reserve, "a reserve")
        check(node.reuse, Moment.HEADER)
        check(node.cache, Moment.CACHE)
        if node.lease is not None:
            check(node.lease.duration, Moment.LEASE)
            if not 0 <= node.lease.unit < len(node.units):
                self._findings.error("E414", "a lease keeps one of the pools of its hold", node.lease)
        self._twice(node)

    def _twice(self, node: Hold) -> None:
        for number_, unit in enumerate(node.units):
            if any(self._index.same_pool(unit.pool, other.pool) for other in node.units[:number_]):
                message = f"this hold takes `{reference(unit.pool)}` twice"
                self._findings.error("E413", message, unit, help="hold it once, with the units added")

    def _inside(self, pool: PoolRef, holds: Holds) -> bool:
        return any(alike(unit.pool, pool) for hold in holds for unit in hold.units)

    def _grow(self, node: Grow, holds: Holds) -> None:
        self._expressions.reference(node.pool, self._moment)
        self._expressions.check(node.units, self._moment)
        self._amount(node.units, "a growth")
        self._needs_hold(node.pool, holds)

    def _needs_hold(self, pool: PoolRef, holds: Holds) -> None:
        """Growing outside a hold stops the run, whichever member is meant (R-A-073, R-A-078)."""
        if not any(unit.pool.name == pool.name for hold in holds for unit in hold.units):
            message = f"no hold of `{pool.name}` is around this growth: the run stops here"
            self._findings.warning("W606", message, pool)

    def _load(self, node: Load, holds: Holds) -> None:
        self._expressions.reference(node.pool, self._moment)
        self._expressions.check(node.units, self._moment)
        self._amount(node.units, "a load")
        if not self._inside(node.pool, holds):
            self._findings.error(
                "E415",
                f"`load {reference(node.pool)}` stands in no hold of `{reference(node.pool)}`",
                node,
                help="write the pool as its hold does, index included",
            )

    def _release(self, node: Release, holds: Holds) -> None:
        self._expressions.reference(node.pool, self._moment)
        leased = any(alike(pool, node.pool) for pool in self._leased)
        if not leased and not self._inside(node.pool, holds):
            text = reference(node.pool)
            self._findings.error(
                "E416",
                f"`release {text}` stands in no hold of `{text}`, and the session leases no `{text}`",
                node,
                help="write the pool as its hold does, index included",
                whole=True,
            )

    # --- requests and runs ---

    def _request(self, node: Request, holds: Holds) -> None:
        self._requests.check(node)

    def _run(self, node: Run, holds: Holds) -> None:
        for stage in node.stages:
            self._expressions.reference(stage, self._moment)
        self._expressions.check(node.work, self._moment)
        self._amount(node.work, "work")
        if node.growing is not None:
            self._expressions.reference(node.growing, self._moment)
            self._needs_hold(node.growing, holds)
        if not node.stages:
            self._findings.error("E431", "a run needs a stage", node)
        elif len(node.stages) > 1:
            self._flow(node)
        else:
            self._mode(node, node.stages[0])

    def _mode(self, node: Run, ref: StageRef) -> None:
        stage = self._index.stages.get(ref.name)
        if stage is None:
            return
        is_step = isinstance(stage.kind, Step)
        if isinstance(stage.kind, Vllm):
            message = f"`{ref.name}` is a vllm stage: it serves requests, not work"
            help_ = f"write `request HANDLE on {reference(ref)} (prompt, output);`"
            self._findings.error("E434", message, node, help=help_)
        elif is_step and node.mode is None:
            message = f"`{ref.name}` is a step stage: say whether this is a prefill or a decode"
            help_ = f"write `run {reference(ref)} prefill (…)` or `run {reference(ref)} decode (…)`"
            self._findings.error("E417", message, node, help=help_)
        elif not is_step and node.mode is not None:
            message = f"`{ref.name}` is no step stage: `{node.mode}` has no meaning there"
            self._findings.error("E417", message, node)
        elif not is_step and node.growing is not None:
            message = f"`{ref.name}` is no step stage: `growing` has no meaning there"
            self._findings.error("E417", message, node)

    # --- flows ---

    def _flow(self, node: Run) -> None:
        names = [ref.name for ref in node.stages]
        for number_, ref in enumerate(node.stages):
            if ref.name in names[:number_]:
                self._findings.error("E418", f"a flow crosses `{ref.name}` once at most", ref)
        if node.mode is not None or node.growing is not None:
            message = "a run over several stages has no mode and no `growing`"
            self._findings.error("E418", message, node)
        if self._index.program.share is None:
            message = "a run over several stages needs to know how they share their capacity"
            help_ = "add `share maxmin;` or `share bottleneck;`"
            self._findings.error("E418", message, node, help=help_)
        for ref in node.stages:
            stage = self._index.stages.get(ref.name)
            if stage is None:
                continue
            capacity = constant(stage.kind.capacity) if isinstance(stage.kind, ProcessorSharing) else None
            if capacity is None or not capacity > 0:
                message = f"a flow crosses `{ref.name}`, so it must be `ps(c)` with a constant c above 0"
                self._findings.error("E418", message, ref)

    def _share(self) -> None:
        if self._index.program.share is not None and not self._index.flow_stages:
            message = "`share` has no effect: no run goes over several stages"
            self._findings.error("E418", message, self._index.program, "share", whole=True)
