"""Pools, stages, the workload and the run block (R-A-040 to R-A-042, R-B-010 to R-B-092)."""

from __future__ import annotations

import math

from serq.ir.fold import constant
from serq.ir.limits import MAX_MEMBERS
from serq.ir.moments import SCHEDULER_ATTRIBUTES, Moment
from serq.ir.nodes import (
    Batch,
    Closed,
    Expr,
    Fifo,
    Node,
    Observe,
    Poisson,
    Pool,
    ProcessorSharing,
    Renewal,
    Set,
    Stage,
    StageRead,
    Step,
    Traced,
    Via,
)
from serq.ir.printer import number
from serq.ir.validate.expressions import Expressions
from serq.ir.validate.index import Index
from serq.ir.validate.problem import Findings
from serq.ir.walk import descendants


class Declarations:
    """Checks everything but the statements."""

    def __init__(self, index: Index, findings: Findings, expressions: Expressions) -> None:
        self._index = index
        self._findings = findings
        self._expressions = expressions

    def check(self) -> None:
        """All declarations of the program."""
        for pool in self._index.program.pools:
            with self._findings.inside(f"pool `{pool.name}`"):
                self._pool(pool)
        for stage in self._index.program.stages:
            with self._findings.inside(f"stage `{stage.name}`"):
                self._stage(stage)
        with self._findings.inside("workload"):
            self._workload()
        with self._findings.inside("run"):
            self._run()

    # --- pools ---

    def _pool(self, pool: Pool) -> None:
        error = self._findings.error
        if math.isnan(pool.capacity):
            error("E425", "`cap` is not a number (NaN)", pool, "capacity")
        if pool.block is not None and not pool.block > 0:
            error("E425", f"`block` must be greater than 0, not {number(pool.block)}", pool, "block")
        self._expressions.check_all(pool.evict_by, Moment.EVICT_KEY)
        self._expressions.check_all(pool.queue_by, Moment.QUEUE_KEY)
        if pool.admit_via is not None:
            self._admit_via(pool, pool.admit_via)
        if pool.spill is not None:
            for ref in (pool.spill.tier, pool.spill.link):
                self._spill_target(ref.name, ref)
            self._expressions.check(pool.spill.work, Moment.SPILL)
            self._expressions.check(pool.spill.condition, Moment.SPILL)

    def _spill_target(self, name: str, node: Node) -> None:
        if name not in self._index.pools and name not in self._index.stages:
            self._findings.error("E401", f"unknown name `{name}`", node, whole=True)

    def _admit_via(self, pool: Pool, name: str) -> None:
        stage = self._index.stages.get(name)
        if stage is None:
            self._findings.error("E401", f"unknown stage `{name}`", pool, "admit_via", whole=True)
        elif not isinstance(stage.kind, Step):
            message = f"`admit via {name}`: only a step stage admits, and `{name}` is none"
            self._findings.error("E426", message, pool, "admit_via")
        else:
            self._joined(pool, stage, pool, "admit_via", f"`admit via {name}`")

    def _joined(self, one: Pool | Stage, other: Pool | Stage, node: Node, part: str, what: str) -> None:
        """Families are joined member by member, or all to one (R-B-017)."""
        if other.count not in (1, one.count):
            message = (
                f"{what} joins a family of {one.count} to a family of {other.count}: "
                "members are joined one to one, or all to one"
            )
            self._findings.error("E427", message, node, part)

    # --- stages ---

    def _stage(self, stage: Stage) -> None:
        match stage.kind:
            case Fifo(servers=servers) if servers < 1:
                self._findings.error("E431", f"a stage needs at least 1 server, not {servers}", stage.kind)
            case ProcessorSharing(capacity=capacity):
                self._expressions.check(capacity, Moment.CAPACITY)
            case Step():
                self._step(stage, stage.kind)

    def _step(self, stage: Stage, step: Step) -> None:
        check = self._expressions.check
        if not isinstance(step.cost, Via):
            check(step.cost, Moment.COST)
        check(step.budget, Moment.BUDGET)
        check(step.chunk, Moment.CHUNK)
        self._expressions.check_all(step.serve_by, Moment.SERVE_KEY)
        check(step.serve_only, Moment.SERVE_ONLY)
        if step.exclusive_prefill and step.serve_by:
            self._findings.error("E218", "an order of service is given twice", step)
        if step.memory is not None:
            pool = self._index.pools.get(step.memory)
            if pool is None:
                self._findings.error("E401", f"unknown pool `{step.memory}`", step, "memory", whole=True)
            else:
                self._joined(stage, pool, step, "memory", f"`memory {step.memory}`")
        if step.budget is not None:
            self._budget(stage, step, step.budget)

    def _budget(self, stage: Stage, step: Step, budget: Expr) -> None:
        path = self._budget_path(stage.name)
        if path is not None:
            chain = " needs ".join(f"that of `{name}`" for name in path)
            message = f"the budget of `{stage.name}` depends on itself: it needs {chain}"
            self._findings.error("E428", message, step, "budget")
        value = constant(budget)
        if value is not None and value <= 0:
            message = f"the budget of `{stage.name}` is {number(value)}: it can never run anything"
            self._findings.warning("W601", message, step, "budget")

    def _budget_path(self, start: str) -> list[str] | None:
        """The stages through which a budget reads its own `budget_left`, if it does."""
        waiting, seen = [[start]], set[str]()
        while waiting:
            path = waiting.pop()
            stage = self._index.stages.get(path[-1])
            if stage is None or not isinstance(stage.kind, Step) or stage.kind.budget is None:
                continue
            for node in descendants(stage.kind.budget):
                if isinstance(node, StageRead) and node.function == "budget_left":
                    if node.stage.name == start:
                        return [*path[1:], start]
                    if node.stage.name not in seen:
                        seen.add(node.stage.name)
                        waiting.append([*path, node.stage.name])
        return None

    # --- workload ---

    def _workload(self) -> None:
        workload, error = self._index.program.workload, self._findings.error
        for position, name in enumerate(workload.hidden):
            if name in workload.hidden[:position]:
                error("E408", f"`{name}` is hidden twice", workload, f"hidden {name}")
            elif name in SCHEDULER_ATTRIBUTES:
                message = f"`{name}` is set by the deployment and cannot be hidden from it"
                error("E408", message, workload, f"hidden {name}")
            elif name not in self._index.attributes:
                message = f"hidden `{name}`: no `set` or `choose` makes it an attribute"
                error("E408", message, workload, f"hidden {name}", whole=True)
        for statement in (*workload.init, *workload.turn):
            if not isinstance(statement, Set | Observe):
                error("E422", "a workload block holds `set` and `observe` only", statement)
        self._arrival()

    def _arrival(self) -> None:
        error = self._findings.error
        match self._index.program.workload.arrive:
            case Poisson(rate=rate) as node if not 0 <= rate < math.inf:
                message = f"the rate of arrivals must be finite and not negative, not {number(rate)}"
                error("E429", message, node)
            case Renewal(gap=gap) as node:
                self._expressions.check(gap, Moment.GAP)
                value = constant(gap)
                if value is not None and not 0 < value < math.inf:
                    message = f"a gap between arrivals must be positive and finite, not {number(value)}"
                    error("E429", message, node)
            case (Batch(count=count) | Closed(count=count)) as node if not 0 <= count <= MAX_MEMBERS:
                error("E429", f"the number of sessions must be from 0 to {MAX_MEMBERS}, not {count}", node)
            case Traced(speed=speed) as node if not 0 < speed < math.inf:
                message = f"the speed of a trace must be positive and finite, not {number(speed)}"
                error("E429", message, node)

    # --- run block (R-B-090, R-B-092) ---

    def _run(self) -> None:
        run, error = self._index.program.run, self._findings.error
        if run.horizon is not None and not 0 < run.horizon < math.inf:
            message = f"the horizon must be positive and finite, not {number(run.horizon)}"
            error("E430", message, run, "horizon")
        elif run.horizon is not None and not run.warmup < run.horizon:
            message = (
                f"the warm-up ({number(run.warmup)}) must end before the horizon ({number(run.horizon)})"
            )
            error("E430", message, run, "warmup")
        if not 0 <= run.warmup < math.inf:
            message = f"the warm-up must be finite and not negative, not {number(run.warmup)}"
            error("E430", message, run, "warmup")
        if not 0 <= run.seed < 2**64:
            error("E430", f"a seed is a whole number from 0 to 2^64 - 1, not {run.seed}", run, "seed")
        if run.arrivals is not None:
            arrive = self._index.program.workload.arrive
            if run.arrivals < 1:
                error("E430", f"`arrivals` must be at least 1, not {run.arrivals}", run, "arrivals")
            elif not isinstance(arrive, Poisson | Renewal | Traced):
                message = "`arrivals` limits open arrivals, and this workload has none"
                error("E430", message, run, "arrivals", help="they are `poisson` and `renewal`", whole=True)
