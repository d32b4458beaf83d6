"""Defs: which are legal, and what their bodies read and assign (R-A-011)."""

from __future__ import annotations

from collections.abc import Iterator

from serq.grammar import ast
from serq.grammar.link.context import Context, Definition, UnlinkableError
from serq.grammar.link.expressions import Expressions
from serq.grammar.link.help import did_you_mean
from serq.grammar.link.scope import Parameter, Scope
from serq.grammar.names import LANGUAGE_WORDS, REQUEST_METRICS, RETIRED_WORDS, STATEMENT_WORDS
from serq.ir import nodes as ir
from serq.ir.moments import RESERVED_VARIABLES, SUPPLIED_ATTRIBUTES
from serq.ir.walk import descendants


def nodes_inside(node: ast.Node) -> Iterator[ast.Node]:
    """A syntax node and all nodes inside it."""
    stack: list[object] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, ast.Node):
            yield current
            stack.extend(getattr(current, name) for name in current.__struct_fields__)
        elif isinstance(current, tuple):
            stack.extend(current)


def check(context: Context, definition: Definition) -> None:
    """Report what makes a def illegal, whether it is used or not."""
    node = definition.node
    for name in (node.name, *node.parameters):
        context.check_value_name(name)
        if name.text in LANGUAGE_WORDS - RETIRED_WORDS:
            what = "a def" if name is node.name else "a parameter"
            message = f"`{name.text}` is a word of the language, and {what} needs a name of its own"
            context.error("E301", message, name.place)
    seen: set[str] = set()
    for parameter in node.parameters:
        if parameter.text in seen:
            context.error("E302", f"`{parameter.text}` is a parameter twice", parameter.place)
        seen.add(parameter.text)
    for name in _bound_inside(node.body):
        if name.text in seen:
            message = f"`{name.text}` is a parameter, and the body may not assign or bind it"
            context.error("E307", message, name.place)
    for other, what in ((context.pools, "a pool"), (context.stages, "a stage"), (context.lets, "a `let`")):
        if node.name.text in other:
            context.error("E214", f"`{node.name.text}` is a def and also {what}", node.name.place)
    _check_calls(context, definition)


def _check_calls(context: Context, definition: Definition) -> None:
    """A body uses only defs above it, so no def reaches itself."""
    for inner in nodes_inside(definition.node.body):
        if isinstance(inner, ast.Call | ast.CallStatement):
            called = context.definitions.get(inner.function.text)
            if called is not None and called.position >= definition.position:
                name = inner.function.text
                what = "itself" if called is definition else f"`{name}`, which is defined below it"
                message = f"`{definition.node.name.text}` uses {what}: a def uses only those above it"
                context.error("E303", message, inner.function.place)


def _bound_inside(body: ast.Node) -> Iterator[ast.Identifier]:
    for node in nodes_inside(body):
        match node:
            case ast.Set() | ast.Choose():
                yield node.target
            case ast.Observe():
                yield node.series
            case ast.Binding():
                yield node.name
            case ast.Aggregate():
                yield node.variable


def reachable(context: Context, body: ast.Node) -> Iterator[ast.Node]:
    """All nodes of a body, then those of the defs and the server that it splices in, each once."""
    waiting, seen = [body], {id(body)}
    while waiting:
        for node in nodes_inside(waiting.pop()):
            yield node
            spliced: ast.Node | None = None
            if isinstance(node, ast.Call | ast.CallStatement):
                definition = context.definitions.get(node.function.text)
                spliced = None if definition is None else definition.node.body
            elif isinstance(node, ast.Request):
                spliced = context.server
            if spliced is not None and id(spliced) not in seen:
                seen.add(id(spliced))
                waiting.append(spliced)


def assigned(context: Context, body: ast.Node) -> frozenset[str]:
    """The attributes that statements assign, those of the defs that they use included."""
    nodes = reachable(context, body)
    return frozenset(node.target.text for node in nodes if isinstance(node, ast.Set | ast.Choose))


def names_read(context: Context, body: ast.Node) -> frozenset[str]:
    """The names that a body reads as values, those of the defs that it uses included."""
    return frozenset(node.text for node in reachable(context, body) if isinstance(node, ast.Name))


def of_statement(context: Context, node: ast.CallStatement) -> Definition:
    """The def that a statement splices in."""
    name = node.function.text
    definition = context.definitions.get(name)
    if definition is None:
        if name in context.unreadable:
            raise UnlinkableError
        known = [key for key, value in context.definitions.items() if isinstance(value.node.body, ast.Block)]
        help_ = did_you_mean(name, [*known, *STATEMENT_WORDS])
        raise context.fail("E202", f"unknown def `{name}`", node.function.place, help=help_)
    if not isinstance(definition.node.body, ast.Block):
        message = f"`{name}` stands for a value, and a statement is needed here"
        raise context.fail("E304", message, node.function.place)
    return definition


def check_arguments(
    context: Context, expressions: Expressions, definition: Definition, node: ast.CallStatement, scope: Scope
) -> None:
    """Refuse arguments whose value would change between the call and where the body reads it (R-A-011)."""
    for argument in node.arguments:
        if isinstance(argument, ast.Reference) or _names_a_family(context, argument, scope):
            continue
        if _may_be_handle(context, argument, scope) and _uses_handles(context, definition.node.body):
            continue
        with context.rehearsal():
            value = expressions.link(argument, scope)
        for inner in descendants(value):
            reads = _changing(context, definition, inner)
            if reads is not None:
                raise context.fail(
                    "E308",
                    f"this argument of `{definition.node.name.text}` reads {reads}",
                    argument.place,
                    help="`set` an attribute to it and pass that",
                )


def _changing(context: Context, definition: Definition, inner: ir.Node) -> str | None:
    """What a node of an argument reads that the statements of a def may change."""
    while_run = "changes while its statements run"
    match inner:
        case ir.Variable():
            return f"`{inner.name}`, which {while_run}"
        case ir.PoolRead() | ir.StageRead():
            return f"`{inner.function}(…)`, which {while_run}"
        case ir.Reusable():
            return f"`reusable(…)`, which {while_run}"
        case ir.RequestRead() if _sends(context, definition.node.body):
            return f"`{inner.metric}({inner.handle})`, which may change while its statements run"
        case ir.Attribute() if inner.name in _assigned_by(context, definition):
            return f"`{inner.name}`, which `{definition.node.name.text}` assigns"
    return None


def _assigned_by(context: Context, definition: Definition) -> frozenset[str]:
    if definition.assigned is None:
        definition.assigned = assigned(context, definition.node.body)
    return definition.assigned


def _sends(context: Context, body: ast.Node) -> bool:
    return any(isinstance(node, ast.Send) for node in reachable(context, body))


def _uses_handles(context: Context, body: ast.Node) -> bool:
    """Whether a body sends requests or reads what became of them."""
    return any(
        isinstance(node, ast.Send)
        or (isinstance(node, ast.Call) and node.function.text in REQUEST_METRICS | {"reusable"})
        for node in reachable(context, body)
    )


def _may_be_handle(context: Context, argument: ast.Expr, scope: Scope) -> bool:
    """Whether a bare name means no value here, so that it may be the handle of a request."""
    if not isinstance(argument, ast.Name):
        return False
    meaning = scope.lookup(argument.text)
    if isinstance(meaning, Parameter):
        inner = meaning.argument
        return not isinstance(inner, ast.Reference) and _may_be_handle(context, inner, meaning.scope)
    values = context.attributes | SUPPLIED_ATTRIBUTES | context.lets.keys() | RESERVED_VARIABLES | {"inf"}
    return meaning is None and argument.text not in values


def _names_a_family(context: Context, argument: ast.Expr, scope: Scope) -> bool:
    if not isinstance(argument, ast.Name):
        return False
    meaning = scope.lookup(argument.text)
    if isinstance(meaning, Parameter):
        return isinstance(meaning.argument, ast.Reference) or _names_a_family(
            context, meaning.argument, meaning.scope
        )
    if meaning is not None or argument.text in context.attributes | SUPPLIED_ATTRIBUTES | context.lets.keys():
        return False
    return argument.text in context.pools or argument.text in context.stages
