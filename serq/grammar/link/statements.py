"""Statements: forms that stand for others are written out, names resolved, statements numbered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from serq.grammar import ast
from serq.grammar.link import definitions
from serq.grammar.link.context import Context, Family, UnlinkableError
from serq.grammar.link.expressions import GLOBAL, Expressions
from serq.grammar.link.holds import link_hold
from serq.grammar.link.requests import link_request
from serq.grammar.link.scope import Scope
from serq.ir import nodes as ir
from serq.ir.limits import MAX_DEPTH
from serq.ir.walk import alike
from serq.source import Place

Out = list[ir.AnyStatement]


class Statements:
    """Links blocks; one method a kind of statement, which appends what it stands for."""

    def __init__(self, context: Context, expressions: Expressions) -> None:
        self.context = context
        self.expressions = expressions
        self._depth = 0
        self._methods: dict[type, Callable[[Any, Scope, Out], None]] = {
            ast.Turn: self._turn,
            ast.End: self._end,
            ast.Request: self._request,
            ast.Send: self._send,
            ast.Set: self._set,
            ast.Observe: self._observe,
            ast.Hold: self._hold,
            ast.PoolStatement: self._pool_statement,
            ast.Run: self._run,
            ast.Serving: self._serving,
            ast.Transfer: self._transfer,
            ast.Branch: self._branch,
            ast.Loop: self._loop,
            ast.Choose: self._choose,
            ast.CallStatement: self._call,
        }

    def block(self, node: ast.Block, scope: Scope = GLOBAL) -> ir.Block:
        """The statements of a block."""
        out: Out = []
        self.append(node, scope, out)
        return tuple(out)

    def append(self, node: ast.Block, scope: Scope, out: Out) -> None:
        """Append the statements of a block; those that cannot be linked are reported and left out."""
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise self.context.fail("E108", f"blocks are nested more than {MAX_DEPTH} deep", node.place)
            for statement in node.statements:
                with self.context.attempt():
                    self._methods[type(statement)](statement, scope, out)
        finally:
            self._depth -= 1

    def _add(self, out: Out, statement: ir.AnyStatement, place: Place) -> None:
        out.append(self.context.mark(statement, place))

    # --- one to one ---

    def _turn(self, node: ast.Turn, scope: Scope, out: Out) -> None:
        self._add(out, ir.Turn(id=self.context.statement_id()), node.place)

    def _end(self, node: ast.End, scope: Scope, out: Out) -> None:
        self._add(out, ir.End(id=self.context.statement_id()), node.place)

    def _set(self, node: ast.Set, scope: Scope, out: Out) -> None:
        id_ = self.context.statement_id()
        value = self.expressions.link(node.value, scope)
        self.context.check_value_name(node.target)
        statement = ir.Set(node.target.text, value, id=id_)
        self.context.mark(statement, node.target.place, "attribute")
        self._add(out, statement, node.place)

    def _observe(self, node: ast.Observe, scope: Scope, out: Out) -> None:
        id_ = self.context.statement_id()
        self._add(
            out, ir.Observe(node.series.text, self.expressions.link(node.value, scope), id=id_), node.place
        )

    def _hold(self, node: ast.Hold, scope: Scope, out: Out) -> None:
        self._add(out, link_hold(self, node, scope), node.place)

    def _send(self, node: ast.Send, scope: Scope, out: Out) -> None:
        self._add(out, link_request(self, node, scope), node.place)

    def _pool_statement(self, node: ast.PoolStatement, scope: Scope, out: Out) -> None:
        id_ = self.context.statement_id()
        pool = self.expressions.pool(node.pool, scope)
        if node.units is not None:
            units = self.expressions.link(node.units, scope)
            kind = ir.Grow if node.verb == "grow" else ir.Load
            self._add(out, kind(pool, units, id=id_), node.place)
        else:
            verb = ir.Drop if node.verb == "drop" else ir.Release
            self._add(out, verb(pool, id=id_), node.place)

    def _branch(self, node: ast.Branch, scope: Scope, out: Out) -> None:
        id_ = self.context.statement_id()
        if node.chance:
            site = self.context.draw_site()
            condition: ir.Expr = ir.Draw("bernoulli", (self.expressions.link(node.condition, scope),), site)
            self.context.mark(condition, node.condition.place)
        else:
            condition = self.expressions.link(node.condition, scope)
        then = self.block(node.then, scope)
        otherwise = () if node.otherwise is None else self.block(node.otherwise, scope)
        self._add(out, ir.Branch(condition, then, otherwise, id=id_), node.place)

    def _loop(self, node: ast.Loop, scope: Scope, out: Out) -> None:
        id_ = self.context.statement_id()
        self._add(out, ir.Loop(self.block(node.body, scope), id=id_), node.place)

    def _choose(self, node: ast.Choose, scope: Scope, out: Out) -> None:
        id_ = self.context.statement_id()
        count = self.expressions.link(node.count, scope)
        keys = self.expressions.link_all(node.keys, scope)
        self.context.check_value_name(node.target)
        statement = ir.Choose(node.target.text, count, keys, id=id_)
        self.context.mark(statement, node.target.place, "attribute")
        self._add(out, statement, node.place)

    def _run(self, node: ast.Run, scope: Scope, out: Out) -> None:
        id_ = self.context.statement_id()
        stages = tuple(self.expressions.stage(stage, scope) for stage in node.stages)
        work = self.expressions.link(node.work, scope)
        growing = None if node.growing is None else self.expressions.pool(node.growing, scope)
        self._add(out, ir.Run(stages, work, node.mode, growing, id=id_), node.place)

    # --- serving forms (R-A-098, R-A-094) ---

    def _serving(self, node: ast.Serving, scope: Scope, out: Out) -> None:
        id_ = self.context.statement_id()
        (stage,) = self._places(node.where, (node.role,), node.place, scope)
        work = self.expressions.link(node.work, scope)
        growing = None if node.growing is None else self.expressions.pool(node.growing, scope)
        is_step = _kind(self.context.stages[stage.name]) == "step"
        mode: Literal["prefill", "decode"] | None = None
        if is_step and node.role != "tool":
            mode = node.role
        self._add(out, ir.Run((stage,), work, mode, growing, id=id_), node.place)

    def _transfer(self, node: ast.Transfer, scope: Scope, out: Out) -> None:
        link = self.expressions.link
        id_ = self.context.statement_id()
        stages = self._places(node.where, ("link", "transfer"), node.place, scope)
        self._add(out, ir.Run(stages, link(node.work, scope), id=id_), node.place)
        load = self.context.statement_id()
        target = self.expressions.pool(node.target, scope)
        self._add(out, ir.Load(target, link(node.units, scope), id=load), node.place)
        release = self.context.statement_id()
        self._add(out, ir.Release(self.expressions.pool(node.origin, scope), id=release), node.place)

    def _places(
        self, where: ast.Where, roles: tuple[str, ...], place: Place, scope: Scope
    ) -> tuple[ir.StageRef, ...]:
        """The stages that a serving form works at."""
        if isinstance(where, tuple):
            return tuple(self.expressions.stage(stage, scope) for stage in where)
        above = [
            (name, family)
            for name, family in self.context.stages.items()
            if family.position < self.context.position
        ]
        candidates = [name for name, _ in above if name in roles]
        if not candidates and where is None and roles[0] in ("prefill", "decode"):
            candidates = [name for name, family in above if _kind(family) == "step"]
        if len(candidates) == 1:
            index = None if where is None else self.expressions.link(where, scope)
            return (self.context.mark(ir.StageRef(candidates[0], index), place),)
        if not (candidates or self.context.readable):
            raise UnlinkableError
        form = roles[-1]
        if candidates:
            message = f"several stages play `{form}`: {', '.join(f'`{name}`' for name in candidates)}"
        else:
            message = f"no stage above plays `{form}`"
        help_ = f"name one: `{form} on STAGE …`"
        raise self.context.fail("E210", message, place, help=help_)

    # --- splicing ---

    def _request(self, node: ast.Request, scope: Scope, out: Out) -> None:
        if self.context.server is None:
            raise self.context.fail(
                "E306", "there is no `server` whose statements `request` could stand for", node.place
            )
        with self.context.at_call((*self.context.calls, node.place), self.context.defs_above):
            self.append(self.context.server, GLOBAL, out)

    def _call(self, node: ast.CallStatement, scope: Scope, out: Out) -> None:
        definition = definitions.of_statement(self.context, node)
        body = definition.node.body
        assert isinstance(body, ast.Block)
        definitions.check_arguments(self.context, self.expressions, definition, node, scope)
        with self.expressions.splice(definition, node.function, node.arguments, scope, node.place) as inner:
            self.append(body, inner, out)

    def lease_unit(self, units: tuple[ir.HoldUnit, ...], pool: ir.PoolRef, place: Place) -> int:
        """Which unit of a hold a `lease` keeps (R-A-092)."""
        for number, unit in enumerate(units):
            if alike(unit.pool, pool):
                return number
        message = f"`{place.text}` is not among the pools of this hold, written the same way"
        raise self.context.fail("E414", message, place)


def _kind(family: Family) -> str:
    assert isinstance(family.node, ast.Stage)
    return family.node.kind.word
