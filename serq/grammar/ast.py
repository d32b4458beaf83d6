"""The syntax tree: what a text says, node by node, each with its place. Names are not resolved here.

The parser's tree becomes this one in ``serq.grammar.build``; ``serq.grammar.link`` turns it into ``serq.ir``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from serq.source import Place


class Node(msgspec.Struct, frozen=True):
    """The base of every node: its place in a text."""

    place: Place


class Identifier(Node, frozen=True):
    """A name as written."""

    text: str


class Reference(Node, frozen=True):
    """A pool or a stage, or a member of a family: ``kv`` or ``kv[e]``."""

    name: Identifier
    index: Expr | None = None


# --- expressions --------------------------------------------------------------------------------------------


class Number(Node, frozen=True):
    """A literal."""

    value: float


class Name(Node, frozen=True):
    """A bare name; the linker finds out what it means (R-A-005)."""

    text: str


class Parenthesised(Node, frozen=True):
    """``(e)``; kept because ``f((p))`` does not pass the pool ``p`` (R-A-010)."""

    inner: Expr


class Unary(Node, frozen=True):
    """``-e`` or ``!e``."""

    operator: Literal["-", "!"]
    operand: Expr


class Binary(Node, frozen=True):
    """Two operands and what stands between them."""

    operator: str
    left: Expr
    right: Expr


class Conditional(Node, frozen=True):
    """``c ? a : b``."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Draw(Node, frozen=True):
    """``~distribution(arguments)``."""

    distribution: Identifier
    arguments: tuple[Argument, ...]


class Call(Node, frozen=True):
    """``f(arguments)``: a function, a pool or stage function, or a def."""

    function: Identifier
    arguments: tuple[Argument, ...]


class Aggregate(Node, frozen=True):
    """``max j in n (e)``."""

    operator: Literal["max", "min", "sum"]
    variable: Identifier
    count: Expr
    body: Expr


Expr = Number | Name | Parenthesised | Unary | Binary | Conditional | Draw | Call | Aggregate
Argument = Expr | Reference
"""What stands between the parentheses of a call; only ``kv[e]`` is a Reference, a bare ``kv`` is a Name."""


# --- statements ---------------------------------------------------------------------------------------------


class Turn(Node, frozen=True):
    """``turn;``."""


class End(Node, frozen=True):
    """``end;``."""


class Request(Node, frozen=True):
    """``request;`` of the two-sided form (R-A-099)."""


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


class Pool(Node, frozen=True):
    """``pool name[size] { options }``."""

    name: Identifier
    size: Expr | None
    options: tuple[Option, ...]


class Kind(Node, frozen=True):
    """What a stage is: ``fifo(2)``, ``ps(capacity)``, ``delay`` or ``step { options }``."""

    word: Literal["fifo", "ps", "delay", "step"]
    values: tuple[Expr, ...] = ()
    options: tuple[Option, ...] = ()


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


Item = Let | Definition | Use | Pool | Stage | Workload | Section | Share | RunSettings


class Program(Node, frozen=True):
    """One file."""

    items: tuple[Item, ...]
