"""Programs with `vllm` stages, built without the parser: expressions are written as Python expressions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, get_args

from serq.ir import nodes
from serq.ir.expressions import RequestMetric, StageFunction
from serq.ir.serving import Prefix, Request, Vllm
from serq.runtime.records import Records
from serq.runtime.simulation import simulate
from serq.runtime.trace import Trace

METRICS = set(get_args(RequestMetric))
STAGE_READS = set(get_args(StageFunction))
DISTRIBUTIONS = {"exponential": "exp", "uniform": "uniform", "bernoulli": "bernoulli"}
VARIABLES = {
    *("now", "tokens", "prefilled", "decoders", "residents", "scheduled", "attention", "kv_decode"),
    *("kv_prefill", "context_decode", "context_prefill", "waited", "prompt_tokens", "priority", "preempted"),
}
_OPERATORS: dict[type, Any] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"},
    **{ast.Gt: ">", ast.Lt: "<", ast.Eq: "==", ast.GtE: ">=", ast.LtE: "<="},
}
_ids = count()
_sites = {"next": 0}


def first_site() -> None:
    """Number the draws of the next program from 0, as the linker does."""
    _sites["next"] = 0


def E(text: str | float) -> nodes.Expr:
    """The expression that ``text`` writes; names are attributes unless they are context variables."""
    return _expr(ast.parse(str(text), mode="eval").body)


def _expr(node: ast.expr) -> nodes.Expr:
    match node:
        case ast.Constant(value):
            return nodes.Number(float(value))  # type: ignore[arg-type]
        case ast.Name(name):
            return nodes.Variable(name) if name in VARIABLES else nodes.Attribute(name)
        case ast.UnaryOp(ast.USub(), operand):
            return nodes.Unary("-", _expr(operand))
        case ast.BinOp(left, operator, right):
            return nodes.Binary(_OPERATORS[type(operator)], _expr(left), _expr(right))
        case ast.Compare(left, [operator], [right]):
            return nodes.Binary(_OPERATORS[type(operator)], _expr(left), _expr(right))
        case ast.Call(ast.Name(name), arguments):
            return _call(name, arguments)
    raise AssertionError(ast.dump(node))


def _call(name: str, arguments: list[ast.expr]) -> nodes.Expr:
    if name in DISTRIBUTIONS:
        _sites["next"] += 1
        return nodes.Draw(DISTRIBUTIONS[name], tuple(map(_expr, arguments)), _sites["next"] - 1)  # type: ignore[arg-type]
    if name == "reusable":
        return nodes.Reusable(ref(ast.unparse(arguments[0])), ast.unparse(arguments[1]))
    if name in METRICS and isinstance(arguments[0], ast.Name):
        return nodes.RequestRead(name, arguments[0].id)  # type: ignore[arg-type]
    assert name in STAGE_READS
    return nodes.StageRead(name, ref(ast.unparse(arguments[0])))  # type: ignore[arg-type]


def ref(text: str) -> nodes.StageRef:
    """``engine`` or ``engine[j]``."""
    name, _, index = text.rstrip("]").partition("[")
    return nodes.StageRef(name, E(index) if index else None)


def vllm(cost: str = "10", **options: Any) -> Vllm:
    """A small engine: steps of 10, 100 blocks of 16 tokens, synchronous unless asked otherwise."""
    given = {"num_gpu_blocks": 100, "max_model_len": 1000, "async_scheduling": False, **options}
    return Vllm(cost=E(cost), **given)


def request(
    prompt: str | float, output: str | float, *, handle: str = "r", on: str = "engine", **clauses: Any
) -> Request:
    """`request r on engine (prompt, output)` with clauses: expressions, ``prefix=(k, n)``, ``accept=[…]``."""
    for name, value in clauses.items():
        if name == "prefix":
            clauses[name] = Prefix(E(value[0]), E(value[1]))
        elif name == "accept":
            clauses[name] = tuple(map(E, value))
        elif name not in ("follows", "traced"):
            clauses[name] = E(value)
    return Request(
        id=next(_ids),
        handle=handle,
        stage=ref(on),
        prompt_tokens=E(prompt),
        output_tokens=E(output),
        **clauses,
    )


def observe(series: str, value: str) -> nodes.Observe:
    """`observe series = value`."""
    return nodes.Observe(id=next(_ids), series=series, value=E(value))


def assign(attribute: str, value: str | float) -> nodes.Set:
    """`set attribute = value`."""
    return nodes.Set(id=next(_ids), attribute=attribute, value=E(value))


def pause(duration: str | float) -> nodes.Run:
    """`run clients (duration)`."""
    return nodes.Run(id=next(_ids), stages=(nodes.StageRef("clients"),), work=E(duration))


def branch(condition: str, *then: nodes.AnyStatement) -> nodes.Branch:
    """`branch (condition) { … }`."""
    return nodes.Branch(id=next(_ids), condition=E(condition), then=then)


def choose(attribute: str, number: int, *keys: str) -> nodes.Choose:
    """`choose attribute in number by (keys)`."""
    return nodes.Choose(id=next(_ids), attribute=attribute, count=E(number), keys=tuple(map(E, keys)))


def program(
    engine: Vllm,
    session: Sequence[nodes.AnyStatement],
    *,
    members: int = 1,
    arrive: nodes.Arrival | None = None,
    init: Iterable[nodes.AnyStatement] = (),
    pools: tuple[nodes.Pool, ...] = (),
    horizon: float = 100_000.0,
    **run: Any,
) -> nodes.Program:
    """A program with the stages ``engine`` and ``clients`` (a delay); one session unless said otherwise."""
    family = nodes.Stage("engine", engine, count=members, family=members > 1)
    return nodes.Program(
        version=nodes.IR_VERSION,
        pools=pools,
        stages=(family, nodes.Stage("clients", nodes.Delay())),
        workload=nodes.Workload(arrive=arrive or nodes.Batch(1), init=tuple(init)),
        session=tuple(session),
        run=nodes.RunSettings(horizon=horizon, **run),
    )


def run(*arguments: Any, trace: Trace | None = None, **options: Any) -> Records:
    """The records of :func:`program` with the same arguments."""
    return simulate(program(*arguments, **options), trace=trace)


def samples(records: Records) -> dict[str, list[float]]:
    """Series -> samples, in recording order."""
    return {name: series.values for name, series in records.series.items()}
