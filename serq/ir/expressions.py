"""Expressions of a program and the references inside them (R-A-020 to R-A-032)."""

from __future__ import annotations

from typing import Final, Literal

import msgspec


class Node(msgspec.Struct, frozen=True, tag_field="node", omit_defaults=True, forbid_unknown_fields=True):
    """The base of every node: immutable, compared by value, tagged by its class name in JSON."""

    def __eq__(self, other: object) -> bool:
        return equal(self, other) if isinstance(other, Node) else NotImplemented

    __hash__ = msgspec.Struct.__hash__


def equal(left: object, right: object, but: str = "") -> bool:
    """Whether nodes, or tuples of them, are equal in all fields ``but`` one, however deep they are."""
    pending = [(left, right)]
    while pending:
        one, other = pending.pop()
        if isinstance(one, Node):
            if type(one) is not type(other):
                return False
            fields = (name for name in one.__struct_fields__ if name != but)
            pending.extend((getattr(one, name), getattr(other, name)) for name in fields)
        elif isinstance(one, tuple) and isinstance(other, tuple):
            if len(one) != len(other):
                return False
            pending.extend(zip(one, other, strict=True))
        elif one is not other and one != other:
            return False
    return True


class Statement(Node, frozen=True, kw_only=True):
    """The base of statements; ``id`` numbers them in the order of the program (workload, then session)."""

    id: int


# --- references ---------------------------------------------------------------------------------------------


class PoolRef(Node, frozen=True, tag="pool"):
    """A pool, or one member of a family: ``kv`` or ``kv[j]`` (R-A-031)."""

    name: str
    index: Expr | None = None


class StageRef(Node, frozen=True, tag="stage"):
    """A stage, or one member of a family: ``link`` or ``npu[j]`` (R-A-031, R-B-017)."""

    name: str
    index: Expr | None = None


# --- expressions --------------------------------------------------------------------------------------------

UnaryOperator = Literal["-", "!"]
BinaryOperator = Literal["+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||"]
Function = Literal["min", "max", "pow", "abs", "floor", "ceil", "sqrt", "exp", "ln"]
Distribution = Literal["exp", "det", "uniform", "erlang", "h2", "bernoulli", "gamma", "lognormal"]
PoolFunction = Literal["used", "free", "holders", "queued", "cachedin", "blocksize"]
StageFunction = Literal[
    "queue", "busy", "work", "est_lambda", "est_rho", "est_wait", "budget_left", "price",
    "waiting", "running", "kv_usage",
]  # fmt: skip
"""Live reads of a stage; the last three are of `vllm` stages only."""
RequestMetric = Literal[
    "ttft", "tpot", "itl", "e2e", "queue_time", "sent", "first_token", "last_token",
    "kv_ready", "prompt_tokens", "cached_tokens", "fetched_tokens", "generated", "preempted",
    "stopped", "aborted", "failed", "recomputed", "rejected",
]  # fmt: skip

ReportRow = Literal["run", "observation", "gauge", "stage", "pool", "engine"]
"""The kinds of rows of a report; ``serq.ir.figures`` lists what each has."""

ADDED_DISTRIBUTIONS: Final = frozenset({"gamma", "lognormal"})
"""Distributions that the base language does not have."""

ENGINE_FUNCTIONS: Final = frozenset({"waiting", "running", "kv_usage"})
"""Functions of `vllm` stages, which the base language does not have."""

ARITIES: Final = {
    **dict.fromkeys(("abs", "floor", "ceil", "sqrt", "exp", "ln", "det", "bernoulli"), 1),
    **dict.fromkeys(("min", "max", "pow", "uniform", "erlang", "h2", "gamma", "lognormal"), 2),
}
"""Function or distribution -> how many arguments it takes; `exp` is both, with one (R-A-026, R-B-103)."""


class Number(Node, frozen=True, tag="number"):
    """A constant."""

    value: float


class Attribute(Node, frozen=True, tag="attribute"):
    """A session attribute (R-A-005): every name assigned by `set` or `choose`, and the supplied ones."""

    name: str


class Variable(Node, frozen=True, tag="variable"):
    """A context variable such as `now` or `waited`, readable only at its moments (R-A-032)."""

    name: str


class Local(Node, frozen=True, tag="local"):
    """The index bound by an aggregate around it."""

    name: str


class Unary(Node, frozen=True, tag="unary"):
    """`-e` or `!e` (R-A-022, R-A-023)."""

    operator: UnaryOperator
    operand: Expr


class Binary(Node, frozen=True, tag="binary"):
    """An operation on two operands; `&&` and `||` are lazy and give 0 or 1 (R-A-020 to R-A-025)."""

    operator: BinaryOperator
    left: Expr
    right: Expr


class Conditional(Node, frozen=True, tag="conditional"):
    """`condition ? then : otherwise`, lazy (R-A-024)."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Call(Node, frozen=True, tag="call"):
    """A pure function (R-A-026)."""

    function: Function
    arguments: tuple[Expr, ...]


class Draw(Node, frozen=True, tag="draw"):
    """`~distribution(arguments)` (R-A-027, R-B-102, R-B-103).

    ``site`` numbers the draws of one section of the program (workload, session, each stage, each pool, the
    arrival process) from 0 in the order of the text; it keys the random stream.
    """

    distribution: Distribution
    arguments: tuple[Expr, ...]
    site: int


class PoolRead(Node, frozen=True, tag="pool_read"):
    """Live state of a pool (R-A-030)."""

    function: PoolFunction
    pool: PoolRef


class StageRead(Node, frozen=True, tag="stage_read"):
    """Live state of a stage (R-B-018, R-B-042)."""

    function: StageFunction
    stage: StageRef


class RequestRead(Node, frozen=True, tag="request_read"):
    """What the client of request ``handle`` saw; NaN for a time that never came."""

    metric: RequestMetric
    handle: str


class Reusable(Node, frozen=True, tag="reusable"):
    """`reusable(stage, handle)`: tokens of the handle's conversation that the engine has cached."""

    stage: StageRef
    handle: str


class ReportRead(Node, frozen=True, tag="report_read"):
    """A figure of the finished run, in an `expect`: ``field`` of the row of ``name``, or of the whole run."""

    field: str
    row: ReportRow = "run"
    name: str = ""
    index: Expr | None = None


class Aggregate(Node, frozen=True, tag="aggregate"):
    """`max|min|sum variable in count (body)` over variable = 0 .. count-1."""

    operator: Literal["max", "min", "sum"]
    variable: str
    count: Expr
    body: Expr


Expr = (
    Number
    | Attribute
    | Variable
    | Local
    | Unary
    | Binary
    | Conditional
    | Call
    | Draw
    | PoolRead
    | StageRead
    | RequestRead
    | Reusable
    | ReportRead
    | Aggregate
)
