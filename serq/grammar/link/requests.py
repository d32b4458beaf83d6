"""`request h on S (p, o) …;`: a request and its clauses (design_language.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from serq.grammar import ast
from serq.grammar.link.context import Context
from serq.grammar.link.help import did_you_mean, which
from serq.grammar.link.scope import Scope
from serq.ir import nodes as ir
from serq.ir.serving import FetchedFrom, Prefix

if TYPE_CHECKING:
    from serq.grammar.link.statements import Statements

_ARITIES = {
    **dict.fromkeys(("class", "priority", "max_tokens", "min_tokens", "job", "immediate", "abort after"), 1),
    "skip_reading_prefix_cache": 1,
    "prefix": 2,
}
"""Clause -> how many values it takes; `accept` takes any number."""

_CLAUSES = (*_ARITIES, "accept", "follows", "from", "traced")
_FIELDS = {"class": "label", "abort after": "abort_after", "from": "fetched"}
"""Clause -> field of the IR, where they are called differently."""


def link_request(linker: Statements, node: ast.Send, scope: Scope) -> ir.Request:
    """A request with its clauses; each stands at most once."""
    context, link = linker.context, linker.expressions.link
    id_ = context.statement_id()
    stage = linker.expressions.stage(node.stage, scope)
    prompt, output = link(node.prompt, scope), link(node.output, scope)
    fields: dict[str, Any] = {}
    parts: dict[str, ast.Option] = {}
    for clause in node.clauses:
        if not _is_known(context, clause):
            continue
        name = _FIELDS.get(clause.word, clause.word)
        if name in parts:
            context.error("E223", f"`{clause.word}` is given twice", clause.place)
            continue
        parts[name] = clause
        with context.attempt():
            fields[name] = _clause(linker, clause, scope)
    handle = linker.expressions.handle(node.handle, scope)
    request = ir.Request(handle, stage, prompt, output, **fields, id=id_)
    context.mark(request, node.handle.place, "handle")
    for name, clause in parts.items():
        context.mark(request, clause.place, name)
    return request


def _is_known(context: Context, clause: ast.Option) -> bool:
    """Whether there is such a clause, and it has its values; reported if not."""
    if clause.word not in _CLAUSES:
        help_ = did_you_mean(clause.word, _CLAUSES) or f"there are {', '.join(f'`{c}`' for c in _CLAUSES)}"
        context.error("E222", f"a request has no clause `{clause.word}`", clause.place, help=help_)
        return False
    wanted = _ARITIES.get(clause.word)
    if wanted is not None and len(clause.values) != wanted:
        values = "value" if wanted == 1 else "values"
        message = f"`{clause.word}` takes {wanted} {values}, not {len(clause.values)}"
        context.error("E205", message, clause.place)
        return False
    return True


def _clause(linker: Statements, clause: ast.Option, scope: Scope) -> Any:
    expressions = linker.expressions
    match clause.word:
        case "traced":
            return True
        case "follows":
            return expressions.handle(clause.names[0], scope)
        case "from":
            connector = _connector(linker, clause.names[1])
            fetched = FetchedFrom(expressions.handle(clause.names[0], scope), connector)
            return linker.context.mark(fetched, clause.place)
        case "prefix":
            return linker.context.mark(Prefix(*expressions.link_all(clause.values, scope)), clause.place)
        case "accept":
            return expressions.link_all(clause.values, scope)
        case _:
            return expressions.link(clause.values[0], scope)


def _connector(linker: Statements, name: ast.Identifier) -> str:
    context = linker.context
    if name.text not in context.connectors and name.text not in context.unreadable:
        help_ = which(name.text, context.connectors, "connector")
        help_ = help_ or f"declare it: `connector {name.text} : transfer {{ over STAGE; work …; }}`"
        raise context.fail("E209", f"unknown connector `{name.text}`", name.place, help=help_)
    return name.text
