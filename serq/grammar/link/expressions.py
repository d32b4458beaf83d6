"""Expressions and references: what every name and call in them means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast, get_args

from serq.grammar import ast
from serq.grammar.link.context import Context, Definition, Family, UnlinkableError
from serq.grammar.link.help import did_you_mean, how_to_draw, which
from serq.grammar.link.scope import (
    BodyBinding,
    HeaderBinding,
    Index,
    Meaning,
    Parameter,
    Scope,
    Supplied,
)
from serq.grammar.names import DISTRIBUTIONS, FUNCTIONS, POOL_FUNCTIONS, REQUEST_METRICS, STAGE_FUNCTIONS
from serq.ir import nodes as ir
from serq.ir.expressions import ARITIES
from serq.ir.fold import constant
from serq.ir.limits import MAX_DEPTH
from serq.ir.moments import (
    RESERVED_VARIABLES,
    SUPPLIED_ATTRIBUTES,
    VARIABLES,
    Moment,
    added_at,
    readable_at,
)
from serq.ir.walk import draws
from serq.source import Place

GLOBAL: Final = Scope()
NOT_MODELLED: Final = frozenset({"price"})


class Expressions:
    """Links expressions; one method a kind of syntax node."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._depth = 0
        self._methods: dict[type, Callable[[Any, Scope], ir.Expr]] = {
            ast.Number: self._number,
            ast.Name: self._name,
            ast.Parenthesised: self._parenthesised,
            ast.Unary: self._unary,
            ast.Binary: self._binary,
            ast.Conditional: self._conditional,
            ast.Draw: self._draw,
            ast.Call: self._call,
            ast.Aggregate: self._aggregate,
            ast.Reference: self._member_as_value,
        }

    def link(self, node: ast.Argument, scope: Scope = GLOBAL) -> ir.Expr:
        """The IR of an expression; raises UnlinkableError after reporting why there is none."""
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH * 3 // 2:
                message = f"expressions are nested more than {MAX_DEPTH} deep"
                raise self._context.fail("E108", message, node.place)
            return self._context.mark(self._methods[type(node)](node, scope), node.place)
        finally:
            self._depth -= 1

    def link_all(self, expressions: tuple[ast.Expr, ...], scope: Scope = GLOBAL) -> tuple[ir.Expr, ...]:
        """Several expressions, reporting what is wrong with each."""
        linked = []
        for expression in expressions:
            with self._context.attempt():
                linked.append(self.link(expression, scope))
        if len(linked) < len(expressions):
            raise UnlinkableError
        return tuple(linked)

    def constant(self, node: ast.Expr, what: str) -> float:
        """The value of an expression that must not depend on the run."""
        linked = self.link(node)
        value = constant(linked)
        if value is None:
            message = f"{what} must be a constant: a number, a `let`, or an expression of those"
            raise self._context.fail("E206", message, node.place)
        if math.isnan(value):
            raise self._context.fail("E207", f"{what} is not a number (NaN)", node.place)
        return value

    # --- plain values ---

    def _number(self, node: ast.Number, scope: Scope) -> ir.Expr:
        return ir.Number(node.value)

    def _parenthesised(self, node: ast.Parenthesised, scope: Scope) -> ir.Expr:
        return self.link(node.inner, scope)

    def _unary(self, node: ast.Unary, scope: Scope) -> ir.Expr:
        return ir.Unary(node.operator, self.link(node.operand, scope))

    def _binary(self, node: ast.Binary, scope: Scope) -> ir.Expr:
        chain = [node]
        while isinstance(chain[-1].left, ast.Binary):
            chain.append(chain[-1].left)
        rights = (operation.right for operation in reversed(chain))
        left, *linked = self.link_all((chain[-1].left, *rights), scope)
        for operation, right in zip(reversed(chain), linked, strict=True):
            left = ir.Binary(cast(ir.BinaryOperator, operation.operator), left, right)
            if operation is not node:
                self._context.mark(left, operation.place)
        return left

    def _conditional(self, node: ast.Conditional, scope: Scope) -> ir.Expr:
        arms = [node]
        while isinstance(arms[-1].otherwise, ast.Conditional):
            arms.append(arms[-1].otherwise)
        parts = [part for arm in arms for part in (arm.condition, arm.then)]
        *linked, result = self.link_all((*parts, arms[-1].otherwise), scope)
        for arm in reversed(arms):
            result = ir.Conditional(then=linked.pop(), condition=linked.pop(), otherwise=result)
            if arm is not node:
                self._context.mark(result, arm.place)
        return result

    def _aggregate(self, node: ast.Aggregate, scope: Scope) -> ir.Expr:
        count = self.link(node.count, scope)
        variable = node.variable.text
        self._context.check_value_name(node.variable)
        body = self.link(node.body, Scope({variable: Index(variable)}, scope))
        return ir.Aggregate(node.operator, variable, count, body)

    # --- names (R-A-005) ---

    def _name(self, node: ast.Name, scope: Scope) -> ir.Expr:
        meaning = scope.lookup(node.text)
        if meaning is not None:
            return self._local(meaning, node)
        context = self._context
        if node.text in context.attributes or node.text in SUPPLIED_ATTRIBUTES:
            return ir.Attribute(node.text)
        if node.text in context.constants:
            return ir.Number(context.constants[node.text])
        if node.text in RESERVED_VARIABLES:
            return ir.Variable(node.text)
        if node.text == "inf":
            return ir.Number(float("inf"))
        raise self._unknown_name(node)

    def _local(self, meaning: Meaning, node: ast.Name) -> ir.Expr:
        match meaning:
            case Parameter():
                with self._context.at_call(meaning.calls, meaning.defs_above):
                    linked = self.link(meaning.argument, meaning.scope)
                meaning.linked.append(linked)
                return linked
            case HeaderBinding():
                return self.link(meaning.value, meaning.scope)
            case BodyBinding():
                if meaning.live is not None:
                    raise self._context.fail(
                        "E211",
                        f"`{node.text}` is read in the body of its hold, and it reads {meaning.live}",
                        node.place,
                        help="the body may read a binding of attributes and constants only; `set` it there",
                    )
                return ir.Attribute(meaning.attribute)
            case Index():
                return ir.Local(meaning.name)
            case Supplied():
                return ir.Variable(meaning.name)

    def _unknown_name(self, node: ast.Name) -> UnlinkableError:
        name, context = node.text, self._context
        if name in context.unreadable:
            return UnlinkableError()
        if name in context.lets:
            message = f"the `let {name}` does not stand above this one, and a `let` reads only those above it"
            return context.fail("E201", message, node.place)
        for table, what in ((context.pools, "pool"), (context.stages, "stage")):
            if name in table:
                return context.fail(
                    "E201", f"`{name}` is a {what}, and an expression needs a value", node.place
                )
        if name in context.definitions or name in FUNCTIONS | POOL_FUNCTIONS | STAGE_FUNCTIONS:
            return context.fail(
                "E201", f"`{name}` is a function and needs its arguments: `{name}(…)`", node.place
            )
        if name in VARIABLES:
            help_ = f"`{name}` can be read in {readable_at(name)}"
            return context.fail("E402", f"`{name}` has no value here", node.place, help=help_)
        known = {*context.attributes, *SUPPLIED_ATTRIBUTES, *context.constants, *VARIABLES, "inf"}
        return context.fail("E201", f"unknown name `{name}`", node.place, help=did_you_mean(name, known))

    def _member_as_value(self, node: ast.Reference, scope: Scope) -> ir.Expr:
        message = f"`{node.place.text}` is a member of a family, and an expression needs a value"
        raise self._context.fail("E201", message, node.place)

    # --- calls ---

    def _draw(self, node: ast.Draw, scope: Scope) -> ir.Expr:
        name = node.distribution.text
        if name not in DISTRIBUTIONS:
            help_ = did_you_mean(name, DISTRIBUTIONS) or f"there are {', '.join(sorted(DISTRIBUTIONS))}"
            raise self._context.fail(
                "E203", f"unknown distribution `{name}`", node.distribution.place, help=help_
            )
        self._check_arity(f"~{name}", len(node.arguments), ARITIES[name], node.place)
        site = self._context.draw_site()
        arguments = self.link_all(cast(tuple[ast.Expr, ...], node.arguments), scope)
        return ir.Draw(cast(ir.Distribution, name), arguments, site)

    def _call(self, node: ast.Call, scope: Scope) -> ir.Expr:
        name = node.function.text
        definition = self._context.definitions.get(name)
        if definition is not None:
            return self._spliced(node, definition, scope)
        if name in NOT_MODELLED:
            raise self._context.fail("E208", f"`{name}` is not modelled", node.function.place)
        if name in FUNCTIONS:
            self._check_arity(name, len(node.arguments), ARITIES[name], node.place)
            arguments = self.link_all(cast(tuple[ast.Expr, ...], node.arguments), scope)
            return ir.Call(cast(ir.Function, name), arguments)
        if name in POOL_FUNCTIONS | STAGE_FUNCTIONS:
            self._check_arity(name, len(node.arguments), 1, node.place)
            return self._read(name, node.arguments[0], scope)
        if name in REQUEST_METRICS:
            self._check_arity(name, len(node.arguments), 1, node.place)
            return ir.RequestRead(cast(ir.RequestMetric, name), self._handle(name, node.arguments[0], scope))
        if name == "reusable":
            self._check_arity(name, len(node.arguments), 2, node.place)
            stage = self._stage_argument(name, node.arguments[0], scope)
            return ir.Reusable(stage, self._handle(name, node.arguments[1], scope))
        if name in DISTRIBUTIONS:
            help_ = how_to_draw(node, ARITIES[name])
            raise self._context.fail("E202", f"unknown function `{name}`", node.function.place, help=help_)
        raise self._unknown_function(node.function)

    def _read(self, name: str, argument: ast.Argument, scope: Scope) -> ir.Expr:
        if name not in POOL_FUNCTIONS:
            stage = self._stage_argument(name, argument, scope)
            return ir.StageRead(cast(ir.StageFunction, name), stage)
        if not isinstance(argument, ast.Name | ast.Reference):
            raise self._context.fail("E204", f"`{name}` takes the name of a pool", argument.place)
        return ir.PoolRead(cast(ir.PoolFunction, name), self.pool(as_reference(argument), scope))

    def _stage_argument(self, name: str, argument: ast.Argument, scope: Scope) -> ir.StageRef:
        if not isinstance(argument, ast.Name | ast.Reference):
            raise self._context.fail("E204", f"`{name}` takes the name of a stage", argument.place)
        return self.stage(as_reference(argument), scope)

    # --- requests ---

    def _handle(self, name: str, argument: ast.Argument, scope: Scope) -> str:
        if not isinstance(argument, ast.Name):
            raise self._context.fail("E204", f"`{name}` takes the handle of a request", argument.place)
        return self.handle(ast.Identifier(argument.place, argument.text), scope)

    def handle(self, node: ast.Identifier, scope: Scope) -> str:
        """The handle of a request; a parameter of a def stands for one."""
        meaning = scope.lookup(node.text)
        if not isinstance(meaning, Parameter):
            return node.text
        if not isinstance(meaning.argument, ast.Name):
            message = f"`{meaning.name}` stands for a request here, and the argument is an expression"
            raise self._context.fail("E204", message, meaning.argument.place)
        return self.handle(ast.Identifier(meaning.argument.place, meaning.argument.text), meaning.scope)

    def supplied(self, moment: Moment) -> Scope:
        """What a moment supplies beyond the base; a `let` of that name wins."""
        names = added_at(moment) - self._context.lets.keys()
        return Scope({name: Supplied(name) for name in names})

    def _unknown_function(self, name: ast.Identifier) -> UnlinkableError:
        if name.text in self._context.unreadable:
            return UnlinkableError()
        known = {*FUNCTIONS, *POOL_FUNCTIONS, *STAGE_FUNCTIONS, *self._context.definitions}
        known |= {*REQUEST_METRICS, "reusable"}
        help_ = did_you_mean(name.text, known)
        if name.text in {*VARIABLES, *SUPPLIED_ATTRIBUTES, *self._context.attributes, *self._context.lets}:
            help_ = f"`{name.text}` is a value and takes no arguments"
        return self._context.fail("E202", f"unknown function `{name.text}`", name.place, help=help_)

    def _check_arity(self, name: str, given: int, wanted: int, place: Place) -> None:
        if given != wanted:
            arguments = "argument" if wanted == 1 else "arguments"
            raise self._context.fail("E205", f"`{name}` takes {wanted} {arguments}, not {given}", place)

    # --- defs (R-A-009, R-A-011) ---

    def _spliced(self, node: ast.Call, definition: Definition, scope: Scope) -> ir.Expr:
        body = definition.node.body
        name = node.function.text
        if isinstance(body, ast.Block):
            message = f"`{name}` stands for statements, and an expression needs a value"
            raise self._context.fail("E304", message, node.place, help=f"write `{name}(…);` as a statement")
        with self.splice(definition, node.function, node.arguments, scope, node.place) as inner:
            linked = self.link(body, inner)
        return linked

    @contextmanager
    def splice(
        self,
        definition: Definition,
        name: ast.Identifier,
        arguments: tuple[ast.Argument, ...],
        scope: Scope,
        place: Place,
    ) -> Iterator[Scope]:
        """The scope in which the body of a def is linked for one call."""
        context = self._context
        context.count(place)
        if definition.position >= context.defs_above:
            raise context.fail(
                "E303",
                f"`{name.text}` is defined below this use: a def stands above what uses it",
                name.place,
            )
        parameters = definition.node.parameters
        self._check_arity(name.text, len(arguments), len(parameters), place)
        meanings = {
            parameter.text: Parameter(parameter.text, argument, scope, context.calls, context.defs_above)
            for parameter, argument in zip(parameters, arguments, strict=True)
        }
        with context.at_call((*context.calls, place), definition.position):
            yield scope.for_body_of_def(dict(meanings))
        for meaning in meanings.values():
            uses = len(meaning.linked)
            if uses > 1 and draws(meaning.linked[0]):
                raise context.fail(
                    "E305",
                    f"this argument draws, and `{name.text}` reads `{meaning.name}` {uses} times: "
                    f"it would draw {uses} times",
                    meaning.argument.place,
                    help="`set` an attribute to the draw and pass that",
                )

    # --- pools and stages (R-A-031) ---

    def pool(self, node: ast.Reference, scope: Scope) -> ir.PoolRef:
        """A reference to a declared pool."""
        name, index = self._resolved(node, scope, self._context.pools, "pool")
        return self._context.mark(ir.PoolRef(name, index), node.place)

    def stage(self, node: ast.Reference, scope: Scope) -> ir.StageRef:
        """A reference to a declared stage."""
        name, index = self._resolved(node, scope, self._context.stages, "stage")
        return self._context.mark(ir.StageRef(name, index), node.place)

    def _resolved(
        self, node: ast.Reference, scope: Scope, declared: dict[str, Family], what: str
    ) -> tuple[str, ir.Expr | None]:
        meaning = scope.lookup(node.name.text)
        if isinstance(meaning, Parameter):
            argument = meaning.argument
            if not isinstance(argument, ast.Name | ast.Reference):
                message = f"`{meaning.name}` stands for a {what} here, and the argument is an expression"
                raise self._context.fail("E204", message, argument.place)
            if isinstance(argument, ast.Reference) and node.index is not None:
                message = f"`{meaning.name}` already is a member of a family"
                raise self._context.fail("E204", message, node.place)
            target = as_reference(argument)
            with self._context.at_call(meaning.calls, meaning.defs_above):
                name, index = self._resolved(target, meaning.scope, declared, what)
            return name, index if node.index is None else self.link(node.index, scope)
        name = node.name.text
        if name not in declared:
            raise self._unknown_family(node.name, declared, what)
        return name, None if node.index is None else self.link(node.index, scope)

    def _unknown_family(
        self, name: ast.Identifier, declared: dict[str, Family], what: str
    ) -> UnlinkableError:
        context = self._context
        if name.text in context.unreadable:
            return UnlinkableError()
        other, kind = (context.stages, "stage") if what == "pool" else (context.pools, "pool")
        if name.text in other:
            return context.fail("E204", f"`{name.text}` is a {kind}, and a {what} is needed here", name.place)
        help_ = which(name.text, declared, what)
        return context.fail("E209", f"unknown {what} `{name.text}`", name.place, help=help_)


def as_reference(argument: ast.Name | ast.Reference) -> ast.Reference:
    """A bare name in an argument, read as the name of a pool or a stage."""
    if isinstance(argument, ast.Reference):
        return argument
    return ast.Reference(argument.place, ast.Identifier(argument.place, argument.text))


assert (
    set(ARITIES) == FUNCTIONS | DISTRIBUTIONS == set(get_args(ir.Function)) | set(get_args(ir.Distribution))
)
