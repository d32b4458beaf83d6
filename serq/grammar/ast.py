"""The syntax tree: what a text says, node by node, each with its place. Names are not resolved here.

The parser's tree becomes this one in ``serq.grammar.build``; ``serq.grammar.link`` turns it into ``serq.ir``.
"""

from __future__ import annotations

from typing import Literal

from serq.grammar.ast_expressions import (
    Aggregate,
    Argument,
    Binary,
    Call,
    Conditional,
    Draw,
    Expr,
    Identifier,
    Name,
    Node,
    Number,
    Parenthesised,
    Reference,
    Unary,
)

__all__ = [
    "Aggregate", "Argument", "Binary", "Binding", "Block", "Branch", "Call", "CallStatement",
    "Choose", "Conditional", "Definition", "Draw", "End", "Expectation", "Expr", "Gauge", "Hold",
    "HoldUnit", "Identifier", "Item", "Kind", "Lease", "Let", "Loop", "Name", "Node", "Number",
    "Objective", "Observe", "Option", "Parenthesised", "Pool", "PoolStatement", "Program",
    "Reference", "Request", "Run", "RunSettings", "Section", "Send", "Serving", "Set", "Setting",
    "Share", "Stage", "Statement", "Text", "Transfer", "Turn", "Unary", "Unit", "Use", "Where",
    "Workload",
]  # fmt: skip

# --- statements ---------------------------------------------------------------------------------------------


class Turn(Node, frozen=True):
    """``turn;``."""


class End(Node, frozen=True):
    """``end;``."""


class Request(Node, frozen=True):
    """``request;`` of the two-sided form (R-A-099)."""


class Send(Node, frozen=True):
    """``request handle on stage (prompt, output) clauses;``; a clause is an option by its word."""

    handle: Identifier
    stage: Reference
    prompt: Expr
    output: Expr
    clauses: tuple[Option, ...]


class Set(Node, frozen=True):
    """``set target = value;``."""

    target: Identifier
    value: Expr


class Observe(Node, frozen=True):
    """``observe series = value;``."""

    series: Identifier
    value: Expr


class HoldUnit(Node, frozen=True):
    """``pool (units) reserve (reserve)`` in the header of a hold."""

    pool: Reference
    units: Expr
    reserve: Expr | None


class Binding(Node, frozen=True):
    """``name = value`` of ``at admission`` (R-A-070)."""

    name: Identifier
    value: Expr


class Lease(Node, frozen=True):
    """``lease pool (duration)``."""

    pool: Reference
    duration: Expr


class Hold(Node, frozen=True):
    """A scoped allocation; the place is that of its header."""

    units: tuple[HoldUnit, ...]
    reuse: Expr | None
    bindings: tuple[Binding, ...]
    body: Block
    cache: Expr | None
    lease: Lease | None


class PoolStatement(Node, frozen=True):
    """``grow``, ``load``, ``drop`` or ``release``; the last two take no units."""

    verb: Literal["grow", "load", "drop", "release"]
    pool: Reference
    units: Expr | None = None


class Run(Node, frozen=True):
    """``run stages [mode] (work) [growing pool];``."""

    stages: tuple[Reference, ...]
    mode: Literal["prefill", "decode"] | None
    work: Expr
    growing: Reference | None


Where = Expr | tuple[Reference, ...] | None
"""Which stages a serving form names: ``[e]``, a member of the role's family; ``on a, b``; none."""


class Serving(Node, frozen=True):
    """``prefill``, ``decode`` or ``tool`` work whose stage is found by its role (R-A-098)."""

    role: Literal["prefill", "decode", "tool"]
    where: Where
    work: Expr
    growing: Reference | None


class Transfer(Node, frozen=True):
    """``transfer work from origin to target (units);`` (R-A-094)."""

    where: Where
    work: Expr
    origin: Reference
    target: Reference
    units: Expr


class Branch(Node, frozen=True):
    """``branch (condition)``, or ``branch with (probability)``."""

    condition: Expr
    chance: bool
    then: Block
    otherwise: Block | None


class Loop(Node, frozen=True):
    """``loop { … }``."""

    body: Block


class Choose(Node, frozen=True):
    """``choose target in count by (keys);``."""

    target: Identifier
    count: Expr
    keys: tuple[Expr, ...]


class CallStatement(Node, frozen=True):
    """``f(arguments);``, a statement def spliced in (R-A-010)."""

    function: Identifier
    arguments: tuple[Argument, ...]


class Block(Node, frozen=True):
    """Statements between braces."""

    statements: tuple[Statement, ...]


Statement = (
    Turn
    | End
    | Request
    | Send
    | Set
    | Observe
    | Hold
    | PoolStatement
    | Run
    | Serving
    | Transfer
    | Branch
    | Loop
    | Choose
    | CallStatement
)


# --- items --------------------------------------------------------------------------------------------------


class Let(Node, frozen=True):
    """``let name = value;``."""

    name: Identifier
    value: Expr


class Definition(Node, frozen=True):
    """``def name(parameters)`` with an expression or a block as its body."""

    name: Identifier
    parameters: tuple[Identifier, ...]
    body: Expr | Block


class Use(Node, frozen=True):
    """``use "file";``."""

    path: str


class Option(Node, frozen=True):
    """One option of a pool, a stage, the workload or the run block.

    ``word`` says which; ``values`` are its expressions in the order of the text, ``names`` its names.
    """

    word: str
    values: tuple[Expr, ...] = ()
    names: tuple[Identifier, ...] = ()


class Text(Node, frozen=True):
    """A string as the value of an option."""

    text: str


class Setting(Node, frozen=True):
    """An option of an engine, an executor or a connector, under the name of what is modelled.

    ``name values;``, ``name by (keys);``, or ``name [kind] { settings }``.
    """

    name: Identifier
    values: tuple[Argument | Text, ...] = ()
    keys: tuple[Expr, ...] = ()
    kind: Identifier | None = None
    settings: tuple[Setting, ...] | None = None


class Pool(Node, frozen=True):
    """``pool name[size] { options }``."""

    name: Identifier
    size: Expr | None
    options: tuple[Option, ...]


class Kind(Node, frozen=True):
    """What a stage is: ``fifo(2)``, ``ps(capacity)``, ``delay``, ``step { … }`` or ``vllm { … }``."""

    word: Literal["fifo", "ps", "delay", "step", "vllm"]
    values: tuple[Expr, ...] = ()
    options: tuple[Option, ...] = ()
    settings: tuple[Setting, ...] = ()


class Stage(Node, frozen=True):
    """``stage name[size] : kind``."""

    name: Identifier
    size: Expr | None
    kind: Kind


class Section(Node, frozen=True):
    """``init``, ``turn``, ``session`` or ``server`` and its block."""

    word: Literal["init", "turn", "session", "server"]
    block: Block


class Workload(Node, frozen=True):
    """``workload { … }``."""

    options: tuple[Option, ...]
    sections: tuple[Section, ...]


class Share(Node, frozen=True):
    """``share policy;``."""

    policy: Identifier


class RunSettings(Node, frozen=True):
    """``run { … }``."""

    options: tuple[Option, ...]


class Unit(Node, frozen=True):
    """``executor name : kind { settings }`` or ``connector name : kind { settings }``."""

    word: Literal["executor", "connector"]
    name: Identifier
    kind: Identifier
    settings: tuple[Setting, ...]


class Gauge(Node, frozen=True):
    """``gauge name = value;``."""

    name: Identifier
    value: Expr


class Objective(Node, frozen=True):
    """``slo metric statistic < limit for class label;``."""

    metric: Identifier
    statistic: Identifier
    comparison: str
    limit: Expr
    label: Expr | None


class Expectation(Node, frozen=True):
    """``expect condition within tolerance;``, or ``expect reading == [values];``."""

    condition: Expr
    tolerance: Expr | None = None
    values: tuple[Expr, ...] | None = None


Item = (
    Let
    | Definition
    | Use
    | Pool
    | Stage
    | Workload
    | Section
    | Share
    | RunSettings
    | Unit
    | Gauge
    | Objective
    | Expectation
)


class Program(Node, frozen=True):
    """One file."""

    items: tuple[Item, ...]
