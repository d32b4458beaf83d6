"""Names that mean something only here: parameters of defs, admission bindings, indices of aggregates,
variables of one moment."""

from __future__ import annotations

import msgspec

from serq.grammar import ast
from serq.ir.nodes import Expr
from serq.source import Place


class Parameter(msgspec.Struct):
    """A parameter of a def stands for the argument, read in the scope of the call (R-A-009, R-A-010)."""

    name: str
    argument: ast.Argument
    scope: Scope
    calls: tuple[Place, ...]
    """The calls of defs around the call that passes the argument."""
    defs_above: int
    """The defs that the argument may use: those above this item."""
    linked: list[Expr] = msgspec.field(default_factory=list)
    """The argument, once for every time the body reads it."""


class HeaderBinding(msgspec.Struct):
    """A binding of `at admission`, in the header: it stands for its expression (R-A-070)."""

    value: ast.Expr
    scope: Scope


class BodyBinding(msgspec.Struct):
    """A binding of `at admission`, in the body: an attribute set on admission, if the value can be kept."""

    attribute: str
    live: str | None
    """What the value reads that may change while the hold lasts; None: it may be kept."""


class Index(msgspec.Struct):
    """The variable of an aggregate."""

    name: str


class Supplied(msgspec.Struct):
    """A variable that the language supplies here only, and no word of the language elsewhere."""

    name: str


Meaning = Parameter | HeaderBinding | BodyBinding | Index | Supplied


class Scope(msgspec.Struct):
    """Names with a meaning of their own, inside a scope around them."""

    names: dict[str, Meaning] = msgspec.field(default_factory=dict)
    outer: Scope | None = None

    def lookup(self, name: str) -> Meaning | None:
        """What the name means here, None where it means what it means everywhere."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def for_body_of_def(self, parameters: dict[str, Meaning]) -> Scope:
        """The scope of a def's body spliced in here: its parameters, and what holds and moments supply."""
        seen: dict[str, Meaning] = {}
        scope: Scope | None = self
        while scope is not None:
            for name, meaning in scope.names.items():
                if isinstance(meaning, HeaderBinding | BodyBinding | Supplied):
                    seen.setdefault(name, meaning)
            scope = scope.outer
        return Scope(parameters, Scope(seen) if seen else None)
