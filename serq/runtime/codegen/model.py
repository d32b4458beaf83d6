"""A program as one module of Python functions: written once, compiled once, bound to each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from serq.ir import arithmetic, nodes
from serq.ir.walk import descendants
from serq.runtime.codegen import checks, reading
from serq.runtime.codegen.expressions import Expressions, Names, Scope
from serq.runtime.codegen.open_sessions import OpenSessions
from serq.runtime.codegen.source import Origin, SourceText, identifier
from serq.runtime.codegen.statements import Statements
from serq.runtime.open_run.shape import needs_clock, sends_one_request
from serq.runtime.serving.request_reads import READS
from serq.runtime.straight.shape import straight

GENERATED: Final = "<serq program>"
"""The file name of generated code, by which a traceback is recognised."""

SUPPLIED_ATTRIBUTES: Final = (
    "serial", "turn_no", "cached", "computed", "new", "out", "think", "more", "forced",
)  # fmt: skip
"""Attributes that every session has (R-A-005)."""

_TOTALS: Final = ("residents", "decoders", "kv_decode", "kv_prefill")
_ENTRY: Final = Scope(
    parameters=("entry", "size", "draws"),
    variables={
        "size": "size",
        "last": "entry.released",
        "age": "(clock.now - entry.released)",
        "waiting": "entry.waiting()",
    },
    session="entry.owner",
    holder="entry.finder",
    draws="draws",
)
_WAITING: Final = Scope(
    parameters=("s", "hold"), variables={"waited": "(clock.now - hold.joined)"}, session="s"
)
_TRANSFER: Final = Scope(
    parameters=("transfer", "draws"),
    variables={"tokens": "transfer.tokens", "blocks": "transfer.blocks"},
    draws="draws",
)
_CAPACITY: Final = Scope(parameters=("present", "draws"), variables={"present": "present"}, draws="draws")
_BUDGET: Final = Scope(
    parameters=("totals", "draws"), variables={name: f"totals.{name}" for name in _TOTALS}, draws="draws"
)
_COST: Final = Scope(
    parameters=("batch", "draws"),
    variables={name: f"batch.{name}" for name in (*_TOTALS, "tokens", "prefilled", "attention")},
    draws="draws",
)
_STEP_COST: Final = Scope(
    parameters=("batch", "draws"),
    variables={**_COST.variables, **{
        name: f"batch.{name}" for name in ("scheduled", "context_decode", "context_prefill")
    }},
    draws="draws",
)  # fmt: skip
_PRICED: Final = Scope(
    parameters=("batch",),
    variables={
        name: f"batch.{name}"
        for name in (
            *("tokens", "prefilled", "scheduled", "decoders", "context_decode", "context_prefill"),
            "attention",
        )
    },
)
_WAITING_REQUEST: Final = Scope(
    parameters=("request",),
    variables={
        "waited": "(clock.now - request.arrival_time)",
        "prompt_tokens": "float(request.num_prompt_tokens)",
        "output_tokens": "float(request.num_output_tokens)",
        "computed_tokens": "float(request.num_computed_tokens)",
        "priority": "float(request.priority)",
        "preempted": "float(request.num_preemptions)",
        "class": "request.client.label",
        "job": "request.client.job",
    },
    session="request.client.session",
)
_SERVE: Final = Scope(
    parameters=("run", "totals"),
    variables={
        **{name: f"totals.{name}" for name in _TOTALS},
        "decoding": "float(run.decoding)",
        "admission": "run.admission",
        "remaining": "run.remaining",
    },
    session="run.session",
)
_GAUGE: Final = Scope()
_GAP: Final = Scope(parameters=("draws",), draws="draws")


class Model:
    """The generated code of a program, and what a run must know about it."""

    def __init__(self, program: nodes.Program) -> None:
        self.program = program
        self.attributes = _attribute_names(program)
        self.pools = {pool.name: identifier("pool", pool.name, i) for i, pool in enumerate(program.pools)}
        self.stages = {
            stage.name: identifier("stage", stage.name, i) for i, stage in enumerate(program.stages)
        }
        self.connectors = {
            connector.name: identifier("connector", connector.name, i)
            for i, connector in enumerate(program.connectors)
        }
        counts = {f"pool {pool.name}": pool.count for pool in program.pools}
        counts |= {f"stage {stage.name}": stage.count for stage in program.stages}
        expressions = Expressions(Names(self.attributes, self.pools, self.stages, counts))
        statements = Statements(expressions)
        workload = program.workload
        statements.function("init_block", workload.init)
        statements.function("turn_block", workload.turn)
        statements.generator("session_statements", program.session)
        self.straight = straight(program)
        if self.straight is not None:
            statements.straight(self.straight)
        self.series = dict(statements.series)
        self.clock_reason = needs_clock(program)
        """Why engines cannot run ahead of the clock; None: they can."""
        self.sends_one_request = self.clock_reason is None and sends_one_request(program)
        """Whether sessions need no clock either."""
        if self.sends_one_request:
            statements.definitions.append(OpenSessions(program, expressions, self.series).text)
        self.session_draws = reading.draws(program.session)
        self.workload_draws = reading.draws((*workload.init, *workload.turn))
        definitions = SourceText()
        for owner, name, parameters, value in _functions(program, expressions, self):
            with definitions.at(Origin(owner=owner)), definitions.indented(f"def {name}({parameters}):"):
                definitions.line(f"return {value}")
        text = expressions.parts
        text.append(statements.definitions)
        text.append(definitions)
        self.origins = text.origins
        self.text = text.text()
        self._code: CodeType = compile(self.text, GENERATED, "exec")

    def bind(self, supplied: dict[str, Any]) -> dict[str, Any]:
        """The functions of the program by name, over what a run supplies (its clock, pools, stages)."""
        namespace = {**_SAME_IN_EVERY_RUN, **supplied}
        exec(self._code, namespace)
        return namespace


@lru_cache(maxsize=32)
def model_of(program: nodes.Program) -> Model:
    """The model of ``program``: generated once for any number of runs."""
    return Model(program)


def _attribute_names(program: nodes.Program) -> dict[str, str]:
    """Attribute -> Python name, for the supplied ones and every name that is read or assigned."""
    names = dict.fromkeys(SUPPLIED_ATTRIBUTES)
    for node in descendants(program):
        match node:
            case nodes.Attribute(name) | nodes.Set(attribute=name) | nodes.Choose(attribute=name):
                names.setdefault(name)
    return {name: identifier("a", name, i) for i, name in enumerate(names)}


Definition = tuple[str, str, str, str]
"""Owner, Python name, parameters and value of a generated function."""


def _functions(program: nodes.Program, expressions: Expressions, model: Model) -> Iterator[Definition]:
    for pool in program.pools:
        yield from _pool_functions(pool, expressions, model.pools[pool.name])
    for stage in program.stages:
        yield from _stage_functions(stage, expressions, model.stages[stage.name])
    for connector in program.connectors:
        yield from _connector_functions(connector, expressions, model.connectors[connector.name])
    for number, gauge in enumerate(program.gauges):
        yield f"gauge `{gauge.name}`", f"gauge_{number}", "", expressions.value(gauge.value, _GAUGE)
    for number, executor in enumerate(program.executors):
        yield from _executor_rules(executor, expressions, number)
    if isinstance(program.workload.arrive, nodes.Renewal):
        value = expressions.value(program.workload.arrive.gap, _GAP)
        yield "workload, arrive", "arrival_gap", ", ".join(_GAP.parameters), value


def _pool_functions(pool: nodes.Pool, expressions: Expressions, name: str) -> Iterator[Definition]:
    owner = f"pool `{pool.name}`"
    if pool.queue_by:
        yield f"{owner}, queue", f"queue_key_{name}", "s, hold", _keys(expressions, pool.queue_by, _WAITING)
    entry = ", ".join(_ENTRY.parameters)
    if pool.evict_by:
        yield f"{owner}, evict", f"evict_key_{name}", entry, _keys(expressions, pool.evict_by, _ENTRY)
    if pool.spill is not None:
        yield (
            f"{owner}, spill",
            f"spill_when_{name}",
            entry,
            expressions.condition(pool.spill.condition, _ENTRY),
        )
        yield f"{owner}, spill", f"spill_work_{name}", entry, expressions.value(pool.spill.work, _ENTRY)


def _stage_functions(stage: nodes.Stage, expressions: Expressions, name: str) -> Iterator[Definition]:
    owner = f"stage `{stage.name}`"
    kind = stage.kind
    if isinstance(kind, nodes.ProcessorSharing):
        value = expressions.value(kind.capacity, _CAPACITY)
        yield f"{owner}, capacity", f"capacity_{name}", ", ".join(_CAPACITY.parameters), value
    if isinstance(kind, nodes.Vllm):
        if not isinstance(kind.cost, nodes.Via):
            value = expressions.value(kind.cost, _STEP_COST)
            yield f"{owner}, cost", f"cost_{name}", ", ".join(_STEP_COST.parameters), value
        if kind.waiting.keys:
            value = _keys(expressions, kind.waiting.keys, _WAITING_REQUEST)
            yield f"{owner}, waiting", f"waiting_key_{name}", "request", value
    if isinstance(kind, nodes.Step):
        yield from _step_functions(kind, expressions, name, owner)


def _connector_functions(
    connector: nodes.Connector, expressions: Expressions, name: str
) -> Iterator[Definition]:
    owner, parameters = f"connector `{connector.name}`", ", ".join(_TRANSFER.parameters)
    stage = expressions.stage(connector.over, _TRANSFER)
    yield f"{owner}, over", f"over_{name}", parameters, stage
    for option in ("work", "latency", "fail", "late"):
        expr = getattr(connector, option)
        if expr is not None:
            yield f"{owner}, {option}", f"{option}_{name}", parameters, expressions.value(expr, _TRANSFER)


def _step_functions(
    kind: nodes.Step, expressions: Expressions, name: str, owner: str
) -> Iterator[Definition]:
    if not isinstance(kind.cost, nodes.Via):
        value = expressions.value(kind.cost, _COST)
        yield f"{owner}, cost", f"cost_{name}", ", ".join(_COST.parameters), value
    for option, expr in (("budget", kind.budget), ("chunk", kind.chunk)):
        if expr is not None:
            value = expressions.value(expr, _BUDGET)
            yield f"{owner}, {option}", f"{option}_{name}", ", ".join(_BUDGET.parameters), value
    if kind.serve_by:
        value = _keys(expressions, kind.serve_by, _SERVE)
        yield f"{owner}, serve", f"serve_key_{name}", ", ".join(_SERVE.parameters), value
    if kind.serve_only is not None:
        condition = expressions.condition(kind.serve_only, _SERVE)
        yield f"{owner}, serve", f"serve_only_{name}", ", ".join(_SERVE.parameters), condition


def _executor_rules(executor: nodes.Executor, expressions: Expressions, number: int) -> Iterator[Definition]:
    """The rules of an executor that are expressions, as functions of the totals of a step."""
    for option in executor.options:
        if isinstance(option.value, nodes.Node):
            owner = f"executor `{executor.name}`, {option.name}"
            yield owner, f"rule_{number}_{option.name}", "batch", expressions.value(option.value, _PRICED)


def _keys(expressions: Expressions, keys: Iterable[nodes.Expr], scope: Scope) -> str:
    """Keys as a tuple in total order (R-A-066)."""
    return f"({', '.join(f'total_order({expressions.value(key, scope)})' for key in keys)},)"


_SAME_IN_EVERY_RUN: Final[dict[str, Any]] = {
    **{arithmetic_function.__name__: arithmetic_function for arithmetic_function in (
        arithmetic.divide, arithmetic.power, arithmetic.minimum, arithmetic.maximum, arithmetic.floor,
        arithmetic.ceil, arithmetic.sqrt, arithmetic.exp, arithmetic.ln, arithmetic.total_order,
        checks.member_index, checks.guard, checks.whole_count, checks.precedes,
        checks.aggregate_sum, checks.aggregate_max, checks.aggregate_min,
    )},
    **READS,
    "abs": abs,
    "inf": float("inf"),
    "nan": float("nan"),
}  # fmt: skip
"""Names that generated code uses and that are the same in every run."""
