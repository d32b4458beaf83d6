"""A program's declarations by name, and its statements in order: what every check looks things up in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

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
    Pool,
    PoolRef,
    Program,
    Request,
    Run,
    Set,
    Stage,
    StageRef,
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
