"""What a program declares, before anything is linked: defs, lets, pools, stages, attributes, the session."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from serq.grammar import ast
from serq.grammar.build import build
from serq.grammar.link import definitions
from serq.grammar.link.context import Context, Definition, Family, UnlinkableError
from serq.grammar.link.expressions import Expressions
from serq.grammar.link.help import did_you_mean
from serq.grammar.parser import parse
from serq.ir.limits import MAX_MEMBERS
from serq.ir.moments import SUPPLIED_ATTRIBUTES
from serq.source import Place, SourceFile, Span


class Declared(msgspec.Struct):
    """The items of a program by kind."""

    lets: list[tuple[int, ast.Let]] = msgspec.field(default_factory=list)
    """With their positions among the items, as for the sections."""
    pools: list[ast.Pool] = msgspec.field(default_factory=list)
    stages: list[ast.Stage] = msgspec.field(default_factory=list)
    workload: ast.Workload | None = None
    sections: dict[str, tuple[int, ast.Section]] = msgspec.field(default_factory=dict)
    """The blocks ``init``, ``turn`` and ``session``."""
    server: ast.Section | None = None
    share: ast.Share | None = None
    run: list[ast.RunSettings] = msgspec.field(default_factory=list)
    connectors: list[ast.Unit] = msgspec.field(default_factory=list)
    executors: list[ast.Unit] = msgspec.field(default_factory=list)
    gauges: list[ast.Gauge] = msgspec.field(default_factory=list)
    objectives: list[ast.Objective] = msgspec.field(default_factory=list)
    expectations: list[ast.Expectation] = msgspec.field(default_factory=list)


def declare(
    context: Context, expressions: Expressions, items: list[ast.Item], sets: Mapping[str, str | float]
) -> Declared:
    """Enter every declaration into the context; `let`s are folded, in their order (R-A-008)."""
    declared = Declared()
    for position, item in enumerate(items):
        _enter(context, declared, position, item)
    _check_sections(context, declared)
    for _, section in declared.sections.values():
        context.attributes |= definitions.assigned(context, section.block)
    _fold_lets(context, expressions, declared.lets, sets)
    families: list[ast.Pool | ast.Stage] = [*declared.pools, *declared.stages]
    for node in families:
        _size(context, expressions, node)
    for definition in context.definitions.values():
        definitions.check(context, definition)
    return declared


def _enter(context: Context, declared: Declared, position: int, item: ast.Item) -> None:
    match item:
        case ast.Let():
            context.check_value_name(item.name)
            context.lets[item.name.text] = item.name
            declared.lets.append((position, item))
        case ast.Definition():
            if item.name.text in context.definitions:
                context.error("E302", f"`{item.name.text}` is defined twice", item.name.place)
            context.definitions.setdefault(item.name.text, Definition(item, position))
        case ast.Pool():
            _family(context, context.pools, position, item, "pool")
            declared.pools.append(item)
        case ast.Stage():
            _family(context, context.stages, position, item, "stage")
            declared.stages.append(item)
        case ast.Unit(word=word, name=name):
            names = context.connectors if word == "connector" else context.executors
            if name.text in names:
                context.error("E219", f"{word} `{name.text}` is declared twice", name.place)
            names.add(name.text)
            (declared.connectors if word == "connector" else declared.executors).append(item)
        case ast.Gauge():
            if any(gauge.name.text == item.name.text for gauge in declared.gauges):
                context.error("E219", f"gauge `{item.name.text}` is declared twice", item.name.place)
            declared.gauges.append(item)
        case _:
            _enter_part(context, declared, position, item)


def _enter_part(context: Context, declared: Declared, position: int, item: ast.Item) -> None:
    """The parts of a program without a name."""
    match item:
        case ast.RunSettings():
            declared.run.append(item)
        case ast.Objective():
            declared.objectives.append(item)
        case ast.Expectation():
            declared.expectations.append(item)
        case ast.Workload():
            _once(context, declared.workload, item, "workload")
            declared.workload = item
            for section in item.sections:
                _section(context, declared, position, section)
        case ast.Section():
            _section(context, declared, position, item)
        case ast.Share():
            _once(context, declared.share, item, "share")
            declared.share = item


def _once(context: Context, before: ast.Node | None, item: ast.Node, word: str) -> None:
    if before is not None:
        context.error("E219", f"`{word}` is given twice", _head(item.place, word))


def _family(
    context: Context, table: dict[str, Family], position: int, node: ast.Pool | ast.Stage, what: str
) -> None:
    if node.name.text in table:
        context.error("E219", f"{what} `{node.name.text}` is declared twice", node.name.place)
    table.setdefault(node.name.text, Family(node, position, 1))


def _section(context: Context, declared: Declared, position: int, section: ast.Section) -> None:
    if section.word == "server":
        _once(context, declared.server, section, "server")
        declared.server = section
        return
    if section.word == "session":
        _once(context, declared.sections.get("session", (0, None))[1], section, "session")
    declared.sections[section.word] = (position, section)


def _check_sections(context: Context, declared: Declared) -> None:
    """The two-sided form: a server, and a session inside the workload that requests it (R-A-099)."""
    server, session = declared.server, declared.sections.get("session")
    context.server = None if server is None else server.block
    if not context.readable:
        return
    inside = (
        declared.workload is not None and session is not None and session[1] in declared.workload.sections
    )
    if server is None:
        if inside and session is not None:
            message = "a session inside the workload needs a `server` to request from"
            context.error("E306", message, _head(session[1].place, "session"))
        return
    head = _head(server.place, "server")
    if session is None or not inside:
        context.error("E306", "a `server` needs a session inside the workload that requests it", head)
    elif not any(isinstance(n, ast.Request) for n in definitions.reachable(context, session[1].block)):
        context.error("E306", "the session never requests this server", head, help="add `request;`")
    for node in definitions.reachable(context, server.block):
        if isinstance(node, ast.Turn | ast.End | ast.Request):
            word = type(node).__name__.lower()
            context.error("E306", f"`{word}` belongs to the session, not to its server", node.place)


def _head(place: Place, word: str) -> Place:
    """The word that begins an item."""
    return Place(place.source, Span(place.span.start, place.span.start + len(word)))


# --- lets ---------------------------------------------------------------------------------------------------


def _fold_lets(
    context: Context,
    expressions: Expressions,
    lets: list[tuple[int, ast.Let]],
    sets: Mapping[str, str | float],
) -> None:
    for name in sets.keys() - context.lets.keys():
        place = Place(SourceFile(f"--set {name}", name), Span(0, len(name)))
        help_ = did_you_mean(name, context.lets)
        if help_ is None and context.lets:
            help_ = f"there are {', '.join(f'`{let}`' for let in context.lets)}"
        context.error("E221", f"there is no `let {name}` to set", place, help=help_)
    for position, item in lets:
        name = item.name.text
        context.position = context.defs_above = position
        try:
            value = _replaced(context, item, sets[name]) if name in sets else item.value
            context.constants[name] = expressions.constant(value, f"`let {name}`")
        except UnlinkableError:
            context.unreadable.add(name)
        if name in context.attributes | SUPPLIED_ATTRIBUTES:
            what = "an attribute" if name in context.attributes else "an attribute that every session has"
            context.error("E214", f"`{name}` is a `let` and also {what}", item.name.place)


def _replaced(context: Context, item: ast.Let, value: str | float) -> ast.Expr:
    """The expression that stands in for a let's own."""
    if not isinstance(value, str):
        return ast.Number(item.value.place, float(value))
    source = SourceFile(f"--set {item.name.text}", f"let {item.name.text} = {value};")
    parsed = parse(source)
    context.diagnostics.extend(parsed.diagnostics)
    if parsed.tree is None or parsed.diagnostics:
        raise UnlinkableError
    match build(source, parsed.tree).items:
        case (ast.Let(value=expression),):
            return expression
    message = f"`{value}` is not a single expression"
    raise context.fail("E221", message, Place(source, Span(0, len(source.text))))


# --- sizes of families --------------------------------------------------------------------------------------


def _size(context: Context, expressions: Expressions, node: ast.Pool | ast.Stage) -> None:
    """The number of members, a whole constant (R-A-031)."""
    family = (context.pools if isinstance(node, ast.Pool) else context.stages)[node.name.text]
    if node.size is None or family.node is not node:
        return
    with context.attempt():
        count = expressions.constant(node.size, "the number of members")
        if not (1 <= count <= MAX_MEMBERS and count == int(count)):
            message = f"the number of members must be a whole number from 1 to {MAX_MEMBERS}, not {count:g}"
            raise context.fail("E215", message, node.size.place)
        family.count = int(count)
