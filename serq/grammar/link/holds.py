"""The hold statement: its header, its admission bindings, its clauses (R-A-050 to R-A-092)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from serq.grammar import ast
from serq.grammar.link.definitions import names_read
from serq.grammar.link.scope import BodyBinding, HeaderBinding, Scope
from serq.ir import nodes as ir
from serq.ir.moments import RESERVED_VARIABLES, SCHEDULER_ATTRIBUTES, SUPPLIED_ATTRIBUTES
from serq.ir.walk import descendants

if TYPE_CHECKING:
    from serq.grammar.link.statements import Statements


class _Bindings(msgspec.Struct, frozen=True):
    header: Scope
    """Where units, `reserve`, `reuse`, `cache` and the lease's duration are read."""
    body: Scope
    kept: tuple[tuple[ast.Binding, str, Scope], ...]
    """The bindings that the body reads, the attributes that hold them, and the scope of their values."""


def link_hold(linker: Statements, node: ast.Hold, scope: Scope) -> ir.Hold:
    """A hold with its bindings written out; those that the body reads become sets at its top (R-A-070)."""
    context, link = linker.context, linker.expressions.link
    id_ = context.statement_id()
    bindings = _link_bindings(linker, node, scope)
    header = bindings.header
    units = tuple(_link_unit(linker, unit, scope, header) for unit in node.units)
    reuse = None if node.reuse is None else link(node.reuse, header)
    body: list[ir.AnyStatement] = []
    for binding, attribute, seen in bindings.kept:
        statement = ir.Set(attribute, link(binding.value, seen), id=context.statement_id())
        body.append(context.mark(statement, binding.place))
    linker.append(node.body, bindings.body, body)
    cache = None if node.cache is None else link(node.cache, header)
    lease = None
    if node.lease is not None:
        pool = linker.expressions.pool(node.lease.pool, scope)
        unit = linker.lease_unit(units, pool, node.lease.pool.place)
        lease = context.mark(ir.Lease(unit, link(node.lease.duration, header)), node.lease.place)
    return ir.Hold(units, tuple(body), reuse, cache, lease, id=id_)


def _link_unit(linker: Statements, node: ast.HoldUnit, scope: Scope, header: Scope) -> ir.HoldUnit:
    link = linker.expressions.link
    pool = linker.expressions.pool(node.pool, scope)
    units = link(node.units, header)
    reserve = None if node.reserve is None else link(node.reserve, header)
    return linker.context.mark(ir.HoldUnit(pool, units, reserve), node.place)


def _link_bindings(linker: Statements, node: ast.Hold, scope: Scope) -> _Bindings:
    context = linker.context
    read = names_read(context, node.body) if node.bindings else frozenset()
    header, body, kept = scope, scope, []
    bound: set[str] = set()
    for binding in node.bindings:
        name = binding.name.text
        context.check_value_name(binding.name)
        if name in bound:
            context.error("E213", f"`{name}` is bound twice in one `at admission`", binding.name.place)
        bound.add(name)
        with context.rehearsal():
            value = linker.expressions.link(binding.value, header)
        live = _what_is_live(value)
        if any(isinstance(inner, ir.Draw) for inner in descendants(value)):
            context.error("E212", "a binding of `at admission` may not draw", binding.value.place)
        attribute = _free_name(linker, name, scope)
        if name in read:
            _check_distinct(linker, binding)
            if live is None:
                kept.append((binding, attribute, header))
        header = Scope({name: HeaderBinding(binding.value, header)}, header)
        body = Scope({name: BodyBinding(attribute, live)}, body)
    return _Bindings(header, body, tuple(kept))


def _free_name(linker: Statements, name: str, scope: Scope) -> str:
    """The attribute that holds a binding: its own name, or another where a hold around has taken that."""
    context, free, number = linker.context, name, 1
    taken = context.attributes | SUPPLIED_ATTRIBUTES | context.lets.keys() | RESERVED_VARIABLES
    while isinstance(scope.lookup(name), BodyBinding) and (free in context.kept_bindings or free in taken):
        number += 1
        free = f"{name}_{number}"
    context.kept_bindings.add(free)
    return free


def _check_distinct(linker: Statements, binding: ast.Binding) -> None:
    """A binding that the body reads is neither an attribute of the program nor a let."""
    context, name = linker.context, binding.name.text
    if name in context.attributes | SUPPLIED_ATTRIBUTES:
        other = "an attribute"
    elif name in context.lets:
        other = "a `let`"
    else:
        return
    message = f"the body of this hold reads `{name}`, which is a binding of `at admission` and also {other}"
    raise context.fail("E213", message, binding.name.place, help="choose another name")


def _what_is_live(value: ir.Expr) -> str | None:
    """What an expression reads that may change while a hold lasts, as messages name it."""
    for node in descendants(value):
        match node:
            case ir.Variable():
                return f"`{node.name}`"
            case ir.PoolRead() | ir.StageRead():
                return f"`{node.function}(…)`"
            case ir.Attribute() if node.name in SCHEDULER_ATTRIBUTES:
                return f"`{node.name}`"
    return None
