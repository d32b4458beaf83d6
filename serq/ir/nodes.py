"""The definition of a serq program: frozen typed nodes, linked and versioned.

The text language is one way to write this tree; a JSON file is another (``serq.ir.codec``). Everything is
resolved here: `let`s are folded into numbers, `def`s and the serving vocabulary are expanded, names say what
they are (an attribute, a context variable, a pool, a stage). What is *legal* is checked by
``serq.ir.validate``, whoever wrote the tree.

Numbers are IEEE doubles; infinities are allowed, NaN is not. Times have no unit (seconds by convention);
units of a pool are blocks, tokens or slots, as the program means them. Places in a text are not part of the
definition: they live in a ``serq.source.SourceMap`` keyed by the statement number ``id``.

Expressions and references stand in ``serq.ir.expressions``, engines of vLLM and their requests in
``serq.ir.serving``; this module hands them on.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Literal

import msgspec

from serq.ir.expectations import AnyExpectation, Objective
from serq.ir.expressions import (
    Aggregate,
    Attribute,
    Binary,
    BinaryOperator,
    Call,
    Conditional,
    Distribution,
    Draw,
    Expr,
    Function,
    Local,
    Node,
    Number,
    PoolFunction,
    PoolRead,
    PoolRef,
    RequestMetric,
    RequestRead,
    Reusable,
    StageFunction,
    StageRead,
    StageRef,
    Statement,
    Unary,
    UnaryOperator,
    Variable,
)
from serq.ir.serving import Connector, Executor, Gauge, Request, Via, Vllm

__all__ = [
    "IR_VERSION",
    "Aggregate",
    "AnyStatement",
    "Arrival",
    "Attribute",
    "Batch",
    "Binary",
    "BinaryOperator",
    "Block",
    "Branch",
    "Call",
    "Choose",
    "Closed",
    "Conditional",
    "Connector",
    "Delay",
    "Distribution",
    "Draw",
    "Drop",
    "End",
    "Executor",
    "Expr",
    "Fifo",
    "Function",
    "Gauge",
    "Grow",
    "Hold",
    "HoldUnit",
    "Lease",
    "Load",
    "Local",
    "Loop",
    "Node",
    "Number",
    "Observe",
    "Poisson",
    "Pool",
    "PoolFunction",
    "PoolRead",
    "PoolRef",
    "ProcessorSharing",
    "Program",
    "Release",
    "Renewal",
    "Request",
    "RequestMetric",
    "RequestRead",
    "Reusable",
    "Run",
    "RunSettings",
    "Set",
    "Spill",
    "Stage",
    "StageFunction",
    "StageKind",
    "StageRead",
    "StageRef",
    "Statement",
    "Step",
    "Traced",
    "Turn",
    "Unary",
    "UnaryOperator",
    "Variable",
    "Via",
    "Vllm",
    "Workload",
]

IR_VERSION = 1

# --- statements ---------------------------------------------------------------------------------------------


class Turn(Statement, frozen=True, tag="turn"):
    """Begin the next turn of the session (R-A-090, R-B-081)."""


class End(Statement, frozen=True, tag="end"):
    """End the session (R-A-088)."""


class Set(Statement, frozen=True, tag="set"):
    """Assign an attribute."""

    attribute: str
    value: Expr


class Observe(Statement, frozen=True, tag="observe"):
    """Append a sample to a series (R-A-100)."""

    series: str
    value: Expr


class HoldUnit(Node, frozen=True, tag="unit"):
    """One pool of a hold: the units taken, and the room required at admission (R-A-055)."""

    pool: PoolRef
    units: Expr
    reserve: Expr | None = None


class Lease(Node, frozen=True, tag="lease"):
    """`lease pool (duration)`: unit number ``unit`` of the hold outlives its scope (R-A-092)."""

    unit: int
    duration: Expr


class Hold(Statement, frozen=True, tag="hold"):
    """A scoped allocation over one or several pools (R-A-050 to R-A-082)."""

    units: tuple[HoldUnit, ...]
    body: tuple[AnyStatement, ...]
    reuse: Expr | None = None
    cache: Expr | None = None
    lease: Lease | None = None


class Grow(Statement, frozen=True, tag="grow"):
    """Add units to the innermost hold of a pool (R-A-073)."""

    pool: PoolRef
    units: Expr


class Load(Statement, frozen=True, tag="load"):
    """Advance the position of the hold on a pool (R-A-093)."""

    pool: PoolRef
    units: Expr


class Drop(Statement, frozen=True, tag="drop"):
    """Remove the session's own live cache entry (R-A-087)."""

    pool: PoolRef


class Release(Statement, frozen=True, tag="release"):
    """Give back the innermost hold that still has the pool, else the oldest lease (R-A-091)."""

    pool: PoolRef


class Run(Statement, frozen=True, tag="run"):
    """Work at one stage, or at several at once (a flow, R-B-060)."""

    stages: tuple[StageRef, ...]
    work: Expr
    mode: Literal["prefill", "decode"] | None = None
    growing: PoolRef | None = None


class Branch(Statement, frozen=True, tag="branch"):
    """`branch (e)`: 1 takes ``then``, 0 takes ``otherwise``, anything else stops the run (R-A-095)."""

    condition: Expr
    then: tuple[AnyStatement, ...]
    otherwise: tuple[AnyStatement, ...] = ()


class Loop(Statement, frozen=True, tag="loop"):
    """Repeat for ever (R-A-096)."""

    body: tuple[AnyStatement, ...]


class Choose(Statement, frozen=True, tag="choose"):
    """Bind ``attribute`` to the index with the smallest key tuple (R-A-097)."""

    attribute: str
    count: Expr
    keys: tuple[Expr, ...]


AnyStatement = (
    Turn | End | Set | Observe | Hold | Grow | Load | Drop | Release | Run | Request | Branch | Loop | Choose
)
Block = tuple[AnyStatement, ...]


# --- pools, stages, workload --------------------------------------------------------------------------------


class Spill(Node, frozen=True, tag="spill"):
    """Evicted pieces move to another pool (R-A-089)."""

    tier: PoolRef
    link: StageRef
    work: Expr
    condition: Expr


class Pool(Node, frozen=True, tag="pool_declaration"):
    """A counted resource with a waiting queue and a prefix cache (R-A-040 to R-A-042)."""

    name: str
    count: int = 1
    family: bool = False
    """Written with ``[N]``; a family of one may be read with or without an index (R-A-031)."""
    capacity: float = inf
    block: float | None = None
    evict_by: tuple[Expr, ...] = ()
    """Keys of `evict by`; empty: least recently used."""
    preempt: Literal["none", "lifo"] = "none"
    queue_by: tuple[Expr, ...] = ()
    """Keys of `queue by`; empty: first come, first served."""
    admit_via: str | None = None
    spill: Spill | None = None


class Fifo(Node, frozen=True, tag="fifo"):
    """``servers`` servers in arrival order (R-B-010)."""

    servers: int = 1


class ProcessorSharing(Node, frozen=True, tag="ps"):
    """All present jobs share ``capacity`` equally (R-B-011)."""

    capacity: Expr


class Delay(Node, frozen=True, tag="delay"):
    """Every job alone at rate 1 (R-B-012)."""


class Step(Node, frozen=True, tag="step"):
    """A programmable batching engine (R-B-020 to R-B-050)."""

    cost: Expr | Via
    budget: Expr | None = None
    chunk: Expr | None = None
    exclusive_prefill: bool = False
    serve_by: tuple[Expr, ...] = ()
    """Keys of `serve by`, ascending; empty: `serve admission` (R-B-021)."""
    serve_only: Expr | None = None
    """Residents for which this is 0 get no tokens in the iteration (design_language.md)."""
    memory: str | None = None


StageKind = Fifo | ProcessorSharing | Delay | Step | Vllm


class Stage(Node, frozen=True, tag="stage_declaration"):
    """A place where work is done."""

    name: str
    kind: StageKind
    count: int = 1
    family: bool = False


class Poisson(Node, frozen=True, tag="poisson"):
    """First arrival at 0, then exponential gaps (R-B-070)."""

    rate: float


class Renewal(Node, frozen=True, tag="renewal"):
    """The first arrival after one gap; the gap is evaluated anew each time (R-B-070)."""

    gap: Expr


class Closed(Node, frozen=True, tag="closed"):
    """``count`` sessions at 0, and a new one at the instant one ends (R-B-070)."""

    count: int


class Batch(Node, frozen=True, tag="batch"):
    """``count`` sessions at 0 (R-B-070)."""

    count: int


class Traced(Node, frozen=True, tag="traced"):
    """One session per trace session at its own time, ``speed`` times as fast (design_language.md)."""

    speed: float = 1.0


Arrival = Poisson | Renewal | Closed | Batch | Traced


class Workload(Node, frozen=True, tag="workload"):
    """Who arrives, and what they bring (R-B-070 to R-B-083)."""

    arrive: Arrival | None = None
    trace: str | None = None
    ordered: bool = False
    init: tuple[AnyStatement, ...] = ()
    turn: tuple[AnyStatement, ...] = ()
    hidden: tuple[str, ...] = ()


class RunSettings(Node, frozen=True, tag="run_settings"):
    """The run block (R-B-090 to R-B-092). ``horizon`` may come from the command line."""

    horizon: float | None = None
    warmup: float = 0.0
    seed: int = 1
    arrivals: int | None = None


class Program(Node, frozen=True, tag="serq"):
    """A whole deployment: the root of an IR file."""

    version: int
    pools: tuple[Pool, ...] = ()
    stages: tuple[Stage, ...] = ()
    workload: Workload = Workload()
    session: tuple[AnyStatement, ...] = ()
    share: Literal["maxmin", "bottleneck"] | None = None
    """How stages that flows cross share their capacity (R-B-061, R-B-063)."""
    run: RunSettings = RunSettings()
    connectors: tuple[Connector, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    executors: tuple[Executor, ...] = ()
    objectives: tuple[Objective, ...] = ()
    expectations: tuple[AnyExpectation, ...] = ()


def with_settings(program: Program, settings: Mapping[str, float]) -> Program:
    """The program with the named parts of its run block replaced (R-B-090)."""
    if not settings:
        return program
    return msgspec.structs.replace(program, run=msgspec.structs.replace(program.run, **settings))
