"""Nodes of the IR as people write them, for messages."""

from __future__ import annotations

from typing import Final

from serq.ir.chains import arms, operations
from serq.ir.expectations import AnyExpectation, Expectation, ExpectedSamples, Objective
from serq.ir.expressions import ReportRead
from serq.ir.nodes import (
    Aggregate,
    AnyStatement,
    Attribute,
    Binary,
    Branch,
    Call,
    Choose,
    Conditional,
    Draw,
    Drop,
    End,
    Expr,
    Grow,
    Hold,
    Load,
    Local,
    Loop,
    Number,
    Observe,
    PoolRead,
    PoolRef,
    Release,
    Request,
    RequestRead,
    Reusable,
    Run,
    Set,
    StageRead,
    StageRef,
    Turn,
    Unary,
    Variable,
)

_BINDING: Final = {
    **{"||": 1, "&&": 2},
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 3),
    **{"+": 4, "-": 4, "*": 5, "/": 5, "^": 7},
}
"""How tightly an operator binds; `?:` is 0, unary `-` and `!` are 6, and an atom is 8 (R-A-020)."""


def number(value: float) -> str:
    """A number, without a point where it is whole."""
    if abs(value) < 1e15 and value == int(value):
        return str(int(value))
    return repr(value)


def expression(node: Expr) -> str:
    """An expression with no more parentheses than it needs."""
    return _expression(node)[0]


def reference(node: PoolRef | StageRef) -> str:
    """A pool or a stage: ``kv`` or ``kv[j]``."""
    return node.name if node.index is None else f"{node.name}[{expression(node.index)}]"


def figure(node: ReportRead) -> str:
    """A figure of the report: ``ended``, ``mean(ttft)`` or ``throughput(npu[1])``."""
    if node.row == "run":
        return node.field
    index = "" if node.index is None else f"[{expression(node.index)}]"
    return f"{node.field}({node.name}{index})"


def expectation(node: AnyExpectation) -> str:
    """What an expectation says."""
    match node:
        case ExpectedSamples():
            samples = ", ".join(number(sample) for sample in node.samples)
            return f"expect {node.comparison}({node.series}) == [{samples}]"
        case Expectation():
            within = "" if node.tolerance is None else f" within {expression(node.tolerance)}"
            return f"expect {expression(node.condition)}{within}"


def objective(node: Objective) -> str:
    """What an objective says, but for the word `slo`."""
    about = "" if node.label is None else f" for class {number(node.label)}"
    return f"{node.metric} {node.statistic} {node.comparison} {number(node.limit)}{about}"


def _expression(node: Expr) -> tuple[str, int]:
    """The text of a node and how tightly it binds."""
    match node:
        case Number():
            return number(node.value), 8 if node.value >= 0 else 6
        case Attribute() | Variable() | Local():
            return node.name, 8
        case Unary():
            return f"{node.operator}{_at_least(node.operand, 6)}", 6
        case Binary():
            return _binary(node)
        case Conditional():
            chain = arms(node)
            texts = [f"{_at_least(arm.condition, 1)} ? {expression(arm.then)} : " for arm in chain]
            return "".join(texts) + expression(chain[-1].otherwise), 0
        case Call():
            return f"{node.function}({_list(node.arguments)})", 8
        case Draw():
            return f"~{node.distribution}({_list(node.arguments)})", 8
        case PoolRead() | StageRead() | RequestRead() | Reusable() | ReportRead():
            return _read(node), 8
        case Aggregate():
            count = _at_least(node.count, 8)
            return f"{node.operator} {node.variable} in {count} ({expression(node.body)})", 8


def _read(node: PoolRead | StageRead | RequestRead | Reusable | ReportRead) -> str:
    match node:
        case ReportRead():
            return figure(node)
        case PoolRead():
            return f"{node.function}({reference(node.pool)})"
        case StageRead():
            return f"{node.function}({reference(node.stage)})"
        case RequestRead():
            return f"{node.metric}({node.handle})"
        case Reusable():
            return f"reusable({reference(node.stage)}, {node.handle})"


def _binary(node: Binary) -> tuple[str, int]:
    chain = operations(node)
    text, own = _expression(chain[0].left)
    for operation in chain:
        binding = _BINDING[operation.operator]
        left, right = binding, binding + 1
        if operation.operator == "^":
            left, right = 8, 6
        elif binding == 3:
            left = 4
        first = text if own >= left else f"({text})"
        text, own = f"{first} {operation.operator} {_at_least(operation.right, right)}", binding
    return text, own


def _at_least(node: Expr, binding: int) -> str:
    text, own = _expression(node)
    return text if own >= binding else f"({text})"


def _list(nodes: tuple[Expr, ...]) -> str:
    return ", ".join(expression(node) for node in nodes)


def statement(node: AnyStatement) -> str:
    """What a statement begins with: all of it but its blocks."""
    match node:
        case Turn() | End():
            return type(node).__name__.lower()
        case Set():
            return f"set {node.attribute} = {expression(node.value)}"
        case Observe():
            return f"observe {node.series} = {expression(node.value)}"
        case Hold():
            return "hold " + ", ".join(
                f"{reference(unit.pool)} ({expression(unit.units)})" for unit in node.units
            )
        case Grow() | Load():
            return f"{type(node).__name__.lower()} {reference(node.pool)} ({expression(node.units)})"
        case Drop() | Release():
            return f"{type(node).__name__.lower()} {reference(node.pool)}"
        case Run():
            stages = ", ".join(reference(stage) for stage in node.stages)
            mode = f" {node.mode}" if node.mode else ""
            growing = f" growing {reference(node.growing)}" if node.growing else ""
            return f"run {stages}{mode} ({expression(node.work)}){growing}"
        case Request():
            amounts = _list((node.prompt_tokens, node.output_tokens))
            return f"request {node.handle} on {reference(node.stage)} ({amounts})"
        case Branch():
            return f"branch ({expression(node.condition)})"
        case Loop():
            return "loop"
        case Choose():
            return f"choose {node.attribute} in {expression(node.count)} by ({_list(node.keys)})"
