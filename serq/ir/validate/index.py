"""A program's declarations by name, and its statements in order: what every check looks things up in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from serq.ir.expressions import ReportRead, ReportRow
from serq.ir.fold import constant
from serq.ir.moments import SUPPLIED_ATTRIBUTES
from serq.ir.nodes import (
    AnyStatement,
    Block,
    Branch,
    Choose,
    Executor,
    Hold,
    Loop,
    Observe,
    Pool,
    PoolRef,
    Program,
    Request,
    Run,
    Set,
    Stage,
    StageRef,
    Vllm,
)
from serq.ir.walk import alike


def blocks(statement: AnyStatement) -> tuple[Block, ...]:
    """The blocks directly inside a statement."""
    match statement:
        case Hold() | Loop():
            return (statement.body,)
        case Branch():
            return (statement.then, statement.otherwise)
        case _:
            return ()


def statements(block: Block) -> Iterator[AnyStatement]:
    """All statements of a block, those inside others included, in the order of the program."""
    for statement in block:
        yield statement
        for inner in blocks(statement):
            yield from statements(inner)


@dataclass(frozen=True)
class Index:
    """The program under validation."""

    program: Program

    @cached_property
    def pools(self) -> dict[str, Pool]:
        """Pool by name."""
        return {pool.name: pool for pool in self.program.pools}

    @cached_property
    def stages(self) -> dict[str, Stage]:
        """Stage by name."""
        return {stage.name: stage for stage in self.program.stages}

    @cached_property
    def connectors(self) -> frozenset[str]:
        """The names of connectors."""
        return frozenset(connector.name for connector in self.program.connectors)

    @cached_property
    def executors(self) -> dict[str, Executor]:
        """Executor by name."""
        return {executor.name: executor for executor in self.program.executors}

    @cached_property
    def requests(self) -> tuple[Request, ...]:
        """The statements that send requests."""
        return tuple(s for s in self.all_statements if isinstance(s, Request))

    @cached_property
    def handles(self) -> frozenset[str]:
        """The handles under which requests are sent."""
        return frozenset(request.handle for request in self.requests)

    @cached_property
    def series(self) -> frozenset[str]:
        """The names of observations."""
        return frozenset(s.series for s in self.all_statements if isinstance(s, Observe))

    def rows(self, kind: ReportRow) -> Collection[str]:
        """The names of the rows of one kind that the report of the program has."""
        match kind:
            case "observation":
                return self.series
            case "gauge":
                return frozenset(gauge.name for gauge in self.program.gauges)
            case "stage":
                return self.stages.keys()
            case "pool":
                return self.pools.keys()
            case "engine":
                return frozenset(stage.name for stage in self.program.stages if isinstance(stage.kind, Vllm))
            case "run":
                return ()

    def family(self, figure: ReportRead) -> Pool | Stage | None:
        """The pool or stage whose row a figure is of, None where the row is another's."""
        families = self.pools if figure.row == "pool" else self.stages
        return families.get(figure.name) if figure.row in ("stage", "pool", "engine") else None

    @cached_property
    def all_statements(self) -> tuple[AnyStatement, ...]:
        """The statements of the workload and of the session, in order of their numbers."""
        workload = self.program.workload
        return tuple(statements((*workload.init, *workload.turn, *self.program.session)))

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The attributes that statements assign."""
        return frozenset(s.attribute for s in self.all_statements if isinstance(s, Set | Choose))

    @cached_property
    def attributes(self) -> frozenset[str]:
        """All attributes of a session (R-A-005)."""
        return self.assigned | SUPPLIED_ATTRIBUTES

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The attributes that the deployment may not know."""
        return frozenset(self.program.workload.hidden)

    @cached_property
    def flow_stages(self) -> frozenset[str]:
        """The stages that runs over several stages cross (R-B-060)."""
        runs = (s for s in self.all_statements if isinstance(s, Run) and len(s.stages) > 1)
        return frozenset(stage.name for run in runs for stage in run.stages)

    def same_pool(self, left: PoolRef, right: PoolRef) -> bool:
        """Whether two references certainly mean one pool."""
        if left.name != right.name or left.name not in self.pools:
            return False
        if alike(left.index, right.index):
            return True
        members = [0.0 if ref.index is None else constant(ref.index) for ref in (left, right)]
        return members[0] is not None and members[0] == members[1]


def declared(index: Index, ref: PoolRef | StageRef) -> Pool | Stage | None:
    """The declaration that a reference names, if there is one."""
    return index.pools.get(ref.name) if isinstance(ref, PoolRef) else index.stages.get(ref.name)
