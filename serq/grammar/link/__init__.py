"""From text to the IR, in three passes over the whole program.

*Declare* (``declare``): what exists, the values of `let`s, the names of attributes. *Link* (``sections``,
``statements``, ``expressions``): every name gets its meaning, every form is written out, nodes of the IR are
made and remembered with their places. *Validate* (``serq.ir.validate``): what any program must obey, whoever
wrote it; its findings are shown at the places of the nodes that they name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from serq.errors import CompileError
from serq.grammar import ast
from serq.grammar.link.connectors import Connectors
from serq.grammar.link.context import Context, GivenUpError
from serq.grammar.link.declare import Declared, declare
from serq.grammar.link.executors import Executors
from serq.grammar.link.expectations import Expectations
from serq.grammar.link.expressions import Expressions
from serq.grammar.link.files import Loader, add_objectives, read
from serq.grammar.link.sections import Sections
from serq.grammar.link.statements import Statements
from serq.ir import nodes as ir
from serq.ir.expectations import AnyExpectation, Objective
from serq.ir.validate import validate
from serq.source import Diagnostic, Place, SourceFile, SourceMap

__all__ = ["Linked", "Loader", "link_program"]


class Linked(msgspec.Struct, frozen=True):
    """A program ready to run, where its statements stand in the text, and what looks unintended."""

    program: ir.Program
    source_map: SourceMap
    warnings: tuple[Diagnostic, ...] = ()
    executors: Mapping[str, Place] = msgspec.field(default_factory=dict)
    """Where the executors are declared, by name."""
    lets: Mapping[str, float] = msgspec.field(default_factory=dict)
    """The values of the `let`s of the program and of the files that it uses, in their order."""


def link_program(
    source: SourceFile,
    *,
    sets: Mapping[str, str | float] | None = None,
    settings: Mapping[str, float] | None = None,
    loader: Loader | None = None,
    slos: Sequence[str] = (),
) -> Linked:
    """Compile a program text.

    Args:
        source: the text; its name is what messages say.
        sets: replacements for the values of `let`s: a number, or the text of a constant expression.
        settings: replacements for settings of the run block, by name.
        loader: reads the files of ``use``, given the path and the file that uses it; None refuses ``use``
            (R-A-006), as for a text without a file.
        slos: objectives to add, each as it stands between `slo` and `;`.

    Raises:
        CompileError: with every independent mistake found.
    """
    files = read(source, loader)
    add_objectives(files, slos)
    if not files.complete:
        raise CompileError(_in_order(files.diagnostics))
    context = Context(
        diagnostics=files.diagnostics, unreadable=files.unreadable, readable=not files.diagnostics
    )
    try:
        program = ir.with_settings(_link(context, files.items, sets or {}), settings or {})
        _judge(context, program)
    except GivenUpError:
        pass
    if context.diagnostics:
        raise CompileError(_in_order(context.diagnostics))
    asked = (context.origin(expectation, "") for expectation in program.expectations)
    expected = tuple(origin.place for origin in asked if origin is not None)
    places = SourceMap(source, context.statement_places(), expected)
    executors = {e.name: found.place for e in program.executors if (found := context.origin(e, ""))}
    lets = {name: context.constants[name] for name in context.lets}
    return Linked(program, places, tuple(_in_order(context.warnings)), executors, lets)


def _link(context: Context, items: list[ast.Item], sets: Mapping[str, str | float]) -> ir.Program:
    expressions = Expressions(context)
    declared = declare(context, expressions, items, sets)
    context.position = context.defs_above = len(items)
    sections = Sections(context, expressions)
    pools, stages = [], []
    for pool in declared.pools:
        with context.attempt():
            pools.append(sections.pool(pool))
    for stage in declared.stages:
        with context.attempt():
            stages.append(sections.stage(stage))
    beside, priced = Connectors(context, expressions), Executors(context, expressions)
    connectors, gauges = [], []
    for connector in declared.connectors:
        with context.attempt():
            connectors.append(beside.connector(connector))
    for gauge in declared.gauges:
        with context.attempt():
            gauges.append(beside.gauge(gauge))
    executors = []
    for executor in declared.executors:
        with context.attempt():
            executors.append(priced.executor(executor))
    statements = Statements(context, expressions)
    context.begin_section()
    init, turn = _block(context, statements, declared, "init"), _block(context, statements, declared, "turn")
    context.begin_section()
    session = _block(context, statements, declared, "session")
    context.position = context.defs_above = len(items)
    objectives, expectations = _asked(context, declared, gauges)
    workload = (
        ir.Workload() if declared.workload is None else sections.workload(declared.workload, init, turn)
    )
    return ir.Program(
        ir.IR_VERSION,
        tuple(pools),
        tuple(stages),
        workload,
        session,
        declared.share and declared.share.policy.text,  # type: ignore[arg-type]
        sections.run(declared.run),
        tuple(connectors),
        tuple(gauges),
        tuple(executors),
        objectives,
        expectations,
    )


def _asked(
    context: Context, declared: Declared, gauges: list[ir.Gauge]
) -> tuple[tuple[Objective, ...], tuple[AnyExpectation, ...]]:
    """What the program asks of its run."""
    if not declared.objectives and not declared.expectations:
        return (), ()
    asked = Expectations(context, [section for _, section in declared.sections.values()], gauges)
    objectives, expectations = [], []
    for objective in declared.objectives:
        with context.attempt():
            objectives.append(asked.objective(objective))
    for expectation in declared.expectations:
        with context.attempt():
            expectations.append(asked.expectation(expectation))
    return tuple(objectives), tuple(expectations)


def _block(context: Context, statements: Statements, declared: Declared, word: str) -> ir.Block:
    """One of the blocks of statements; its serving forms and defs look at the items above it."""
    if word not in declared.sections:
        return ()
    context.position, section = declared.sections[word]
    context.defs_above = context.position
    return statements.block(section.block)


def _judge(context: Context, program: ir.Program) -> None:
    """Report what is wrong with the program as a whole, at the places of the nodes to blame."""
    complete = not context.diagnostics
    for problem in validate(program):
        if complete or not problem.whole:
            context.report(problem.diagnostic, context.origin(problem.node, problem.part))


def _in_order(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """By file and place."""
    return sorted(
        diagnostics, key=lambda d: (d.source.name if d.source else "", d.span.start if d.span else 0)
    )
