"""Expressions of the language as Python expressions (R-A-020 to R-A-033).

The text computes IEEE doubles without raising: what Python would refuse (division by zero, a power out of
range) goes through ``serq.ir.arithmetic``. Conditions become Python conditions, so laziness is Python's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import copysign, inf, isnan
from typing import Final, NamedTuple

from serq.ir import nodes
from serq.ir.chains import arms
from serq.runtime.codegen.source import SourceText

CONDITIONAL: Final = 0
OR: Final = 1
AND: Final = 2
NOT: Final = 3
COMPARISON: Final = 4
SUM: Final = 5
PRODUCT: Final = 6
UNARY: Final = 7
ATOM: Final = 9
"""How tightly a Python text binds: an operand that binds less tightly needs parentheses."""

_HEIGHT_LIMIT: Final = 40
"""Texts nested deeper become functions of their own: Python's parser allows 200 parentheses."""

_ARITHMETIC: Final[Mapping[str, int]] = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}
_COMPARISONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})
_LOGIC: Final[Mapping[str, tuple[str, int]]] = {"&&": ("and", AND), "||": ("or", OR)}


class Code(NamedTuple):
    """A Python expression: its text, how tightly it binds, how deeply it is nested."""

    text: str
    binding: int = ATOM
    height: int = 0


@dataclass(frozen=True)
class Scope:
    """What an expression may read at its moment (R-A-032), as Python text.

    ``parameters`` are the Python names that the text may mention; ``variables`` says what each context
    variable is; ``session`` names the session whose attributes are read (None: nobody's, they read 0),
    ``holder`` the one whose cache entries are, where that is another;
    ``draws`` is the stream of its draws. Where the attributes of a session ``are_local``, each is a variable
    of the function, and ``requests`` are those that it has sent, by handle.
    """

    parameters: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None
    holder: str | None = None
    draws: str | None = None
    are_local: bool = False
    requests: Mapping[str, str] = field(default_factory=dict)


class Names(NamedTuple):
    """The Python names of what a program declares."""

    attributes: Mapping[str, str]
    pools: Mapping[str, str]
    stages: Mapping[str, str]
    counts: Mapping[str, int]
    """Members of ``pool NAME`` and ``stage NAME``."""


class Expressions:
    """Translates expressions; what is nested too deeply goes to ``parts`` as functions of its own."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.parts = SourceText()
        self._part_count = 0

    def value(self, expr: nodes.Expr, scope: Scope) -> str:
        """Python text whose value is that of ``expr``."""
        return self._value(expr, scope).text

    def condition(self, expr: nodes.Expr, scope: Scope) -> str:
        """Python text that is true exactly where ``expr`` is not zero (R-A-023)."""
        return self._condition(expr, scope).text

    def pool(self, ref: nodes.PoolRef, scope: Scope) -> str:
        """Python text for one member of a pool."""
        return self._member("pool", ref.name, self.names.pools[ref.name], ref.index, scope)

    def stage(self, ref: nodes.StageRef, scope: Scope) -> str:
        """Python text for one member of a stage."""
        return self._member("stage", ref.name, self.names.stages[ref.name], ref.index, scope)

    def _member(self, kind: str, name: str, python: str, index: nodes.Expr | None, scope: Scope) -> str:
        count = self.names.counts[f"{kind} {name}"]
        if index is None:
            return f"{python}[0]"
        if isinstance(index, nodes.Number) and 0 <= index.value < count:
            return f"{python}[{int(index.value)}]"
        return f"{python}[member_index({self.value(index, scope)}, {count}, {f'{kind} `{name}`'!r})]"

    # --- values -----------------------------------------------------------------------------------------

    def _value(self, expr: nodes.Expr, scope: Scope) -> Code:
        return self._bounded(_TRANSLATORS[type(expr)](self, expr, scope), scope)

    def _own_function(self, code: Code, scope: Scope) -> Code:
        name = f"part_{self._part_count}"
        self._part_count += 1
        parameters = ", ".join(scope.parameters)
        with self.parts.indented(f"def {name}({parameters}):"):
            self.parts.line(f"return {code.text}")
        return Code(f"{name}({parameters})")

    def _number(self, expr: nodes.Number, scope: Scope) -> Code:
        return number(expr.value)

    def _attribute(self, expr: nodes.Attribute, scope: Scope) -> Code:
        if scope.are_local:
            return Code(self.names.attributes[expr.name])
        if scope.session is None:
            return Code("0.0")
        return Code(f"{scope.session}.{self.names.attributes[expr.name]}")

    def _variable(self, expr: nodes.Variable, scope: Scope) -> Code:
        if expr.name == "now":
            return Code("clock.now")
        if expr.name == "inf":
            return Code("inf")
        return Code(scope.variables[expr.name])

    def _local(self, expr: nodes.Local, scope: Scope) -> Code:
        return Code(scope.variables[f"local {expr.name}"])

    def _unary(self, expr: nodes.Unary, scope: Scope) -> Code:
        if expr.operator == "!":
            return self._as_number(self._condition(expr, scope))
        operand = self._value(expr.operand, scope)
        return Code(f"-{_wrapped(operand, UNARY)}", UNARY, operand.height + 1)

    def _binary(self, expr: nodes.Binary, scope: Scope) -> Code:
        spine = []
        left: nodes.Expr = expr
        while isinstance(left, nodes.Binary) and left.operator in _ARITHMETIC:
            spine.append(left)
            left = left.left
        if not spine:
            return self._other_binary(expr, scope)
        code = self._value(left, scope)
        for node in reversed(spine):
            binding = _ARITHMETIC[node.operator]
            right = self._value(node.right, scope)
            height = max(code.height, right.height) + 1
            if node.operator == "/" and not (isinstance(node.right, nodes.Number) and node.right.value):
                code = Code(f"divide({code.text}, {right.text})", ATOM, height)
            else:
                text = f"{_wrapped(code, binding)} {node.operator} {_wrapped(right, binding + 1)}"
                code = Code(text, binding, height)
            code = self._bounded(code, scope)
        return code

    def _other_binary(self, expr: nodes.Binary, scope: Scope) -> Code:
        if expr.operator in _COMPARISONS or expr.operator in _LOGIC:
            return self._as_number(self._condition(expr, scope))
        left, right = self._value(expr.left, scope), self._value(expr.right, scope)
        return Code(f"power({left.text}, {right.text})", ATOM, max(left.height, right.height) + 1)

    def _conditional(self, expr: nodes.Conditional, scope: Scope) -> Code:
        chain = arms(expr)
        code = self._value(chain[-1].otherwise, scope)
        for arm in reversed(chain):
            condition, then = self._condition(arm.condition, scope), self._value(arm.then, scope)
            text = f"{_wrapped(then, OR)} if {_wrapped(condition, OR)} else {code.text}"
            height = max(condition.height, then.height, code.height) + 1
            code = self._bounded(Code(text, CONDITIONAL, height), scope)
        return code

    def _call(self, expr: nodes.Call, scope: Scope) -> Code:
        arguments = [self._value(argument, scope) for argument in expr.arguments]
        text = f"{_FUNCTION_NAMES[expr.function]}({', '.join(code.text for code in arguments)})"
        return Code(text, ATOM, max(code.height for code in arguments) + 1)

    def _draw(self, expr: nodes.Draw, scope: Scope) -> Code:
        arguments = [self._value(argument, scope) for argument in expr.arguments]
        text = ", ".join([str(expr.site), *(code.text for code in arguments)])
        height = max((code.height for code in arguments), default=0) + 1
        return Code(f"{scope.draws}.{expr.distribution}({text})", ATOM, height)

    def _pool_read(self, expr: nodes.PoolRead, scope: Scope) -> Code:
        pool = self.pool(expr.pool, scope)
        session = scope.holder or scope.session or "None"
        texts = {
            "used": f"{pool}.used",
            "free": f"{pool}.free()",
            "holders": f"float({pool}.holder_count)",
            "queued": f"float(len({pool}.queue))",
            "cachedin": f"{pool}.cache.amount_of({session})",
            "blocksize": f"{pool}.block",
        }
        return Code(texts[expr.function])

    def _stage_read(self, expr: nodes.StageRead, scope: Scope) -> Code:
        return Code(f"{self.stage(expr.stage, scope)}.{_STAGE_READS[expr.function]}()")

    def _request_read(self, expr: nodes.RequestRead, scope: Scope) -> Code:
        if scope.are_local:
            return Code(f"request_{expr.metric}({scope.requests.get(expr.handle, 'never_sent()')})")
        return Code(f"request_{expr.metric}(sent_request({scope.session}, {expr.handle!r}))")

    def _reusable(self, expr: nodes.Reusable, scope: Scope) -> Code:
        return Code(f"{self.stage(expr.stage, scope)}.reusable({scope.session}, {expr.handle!r})")

    def _aggregate(self, expr: nodes.Aggregate, scope: Scope) -> Code:
        local = f"local_{len(scope.parameters)}"
        inner = replace(
            scope,
            parameters=(*scope.parameters, local),
            variables={**scope.variables, f"local {expr.variable}": local},
        )
        count, body = self._value(expr.count, scope), self._value(expr.body, inner)
        text = f"aggregate_{expr.operator}({count.text}, lambda {local}: {body.text})"
        return Code(text, ATOM, max(count.height, body.height) + 2)

    # --- conditions -------------------------------------------------------------------------------------

    def _condition(self, expr: nodes.Expr, scope: Scope) -> Code:
        if isinstance(expr, nodes.Unary) and expr.operator == "!":
            operand = self._condition(expr.operand, scope)
            return Code(f"not {_wrapped(operand, NOT)}", NOT, operand.height + 1)
        if isinstance(expr, nodes.Binary) and expr.operator in _LOGIC:
            return self._logic(expr, scope)
        if isinstance(expr, nodes.Binary) and expr.operator in _COMPARISONS:
            left, right = self._value(expr.left, scope), self._value(expr.right, scope)
            text = f"{_wrapped(left, SUM)} {expr.operator} {_wrapped(right, SUM)}"
            return Code(text, COMPARISON, max(left.height, right.height) + 1)
        value = self._value(expr, scope)
        return Code(f"{_wrapped(value, SUM)} != 0.0", COMPARISON, value.height + 1)

    def _logic(self, expr: nodes.Binary, scope: Scope) -> Code:
        spine = [expr]
        while isinstance(left := spine[-1].left, nodes.Binary) and left.operator in _LOGIC:
            spine.append(left)
        code = self._condition(left, scope)
        for node in reversed(spine):
            word, binding = _LOGIC[node.operator]
            right = self._condition(node.right, scope)
            text = f"{_wrapped(code, binding)} {word} {_wrapped(right, binding + 1)}"
            code = self._bounded(Code(text, binding, max(code.height, right.height) + 1), scope)
        return code

    def _bounded(self, code: Code, scope: Scope) -> Code:
        return self._own_function(code, scope) if code.height > _HEIGHT_LIMIT else code

    @staticmethod
    def _as_number(condition: Code) -> Code:
        text = f"1.0 if {_wrapped(condition, OR)} else 0.0"
        return Code(text, CONDITIONAL, condition.height + 1)


def number(value: float) -> Code:
    """A constant as Python text."""
    if isnan(value):
        return Code("nan")
    if value == inf:
        return Code("inf")
    if copysign(1.0, value) < 0:
        return Code(f"-{'inf' if value == -inf else repr(-value)}", UNARY)
    return Code(repr(float(value)))


def is_boolean(expr: nodes.Expr) -> bool:
    """Whether ``expr`` can only be 0 or 1, seen from its form (R-A-095)."""
    while isinstance(expr, nodes.Conditional):
        if not is_boolean(expr.then):
            return False
        expr = expr.otherwise
    match expr:
        case nodes.Number(value):
            return value in (0.0, 1.0)
        case nodes.Unary(operator):
            return operator == "!"
        case nodes.Binary(operator):
            return operator in _COMPARISONS or operator in _LOGIC
        case nodes.Draw(distribution):
            return distribution == "bernoulli"
    return False


def _wrapped(code: Code, binding: int) -> str:
    return code.text if code.binding >= binding else f"({code.text})"


_FUNCTION_NAMES: Final[Mapping[str, str]] = {
    "min": "minimum", "max": "maximum", "pow": "power", "abs": "abs", "floor": "floor", "ceil": "ceil",
    "sqrt": "sqrt", "exp": "exp", "ln": "ln",
}  # fmt: skip

_STAGE_READS: Final[Mapping[str, str]] = {
    "queue": "queue_length", "busy": "busy", "work": "remaining_work", "est_lambda": "estimated_rate",
    "est_rho": "estimated_load", "est_wait": "estimated_wait", "budget_left": "budget_left",
    "waiting": "waiting", "running": "running", "kv_usage": "kv_usage",
}  # fmt: skip

_TRANSLATORS: Final[Mapping[type, Callable[..., Code]]] = {
    nodes.Number: Expressions._number,
    nodes.Attribute: Expressions._attribute,
    nodes.Variable: Expressions._variable,
    nodes.Local: Expressions._local,
    nodes.Unary: Expressions._unary,
    nodes.Binary: Expressions._binary,
    nodes.Conditional: Expressions._conditional,
    nodes.Call: Expressions._call,
    nodes.Draw: Expressions._draw,
    nodes.PoolRead: Expressions._pool_read,
    nodes.StageRead: Expressions._stage_read,
    nodes.RequestRead: Expressions._request_read,
    nodes.Reusable: Expressions._reusable,
    nodes.Aggregate: Expressions._aggregate,
}
