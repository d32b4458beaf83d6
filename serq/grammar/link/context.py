"""What the passes of the linker share: where nodes came from, what is declared, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

import msgspec

from serq.grammar import ast
from serq.grammar.names import RETIRED_WORDS
from serq.ir.nodes import Node, Statement
from serq.source import Diagnostic, Place

N = TypeVar("N", bound=Node)

MAX_NODES = 250_000
"""How large a program may become when its defs are spliced in."""


MAX_ERRORS = 100
"""Mistakes after which a program is given up."""

MAX_NOTES = 4
"""Calls of defs that a message names, the innermost ones."""


class UnlinkableError(Exception):
    """A part of the program means nothing; its diagnostic has been reported."""


class GivenUpError(Exception):
    """There is no point in going on: too many mistakes, or a program that does not stop growing."""


class Origin(msgspec.Struct, frozen=True):
    """The place that a node was written at, and the calls of defs that spliced it in, innermost last."""

    place: Place
    calls: tuple[Place, ...] = ()


class Family(msgspec.Struct):
    """A declared pool or stage: how many members, and where among the items it stands."""

    node: ast.Pool | ast.Stage
    position: int
    count: int


class Definition(msgspec.Struct):
    """A `def`, and where among the items it stands."""

    node: ast.Definition
    position: int
    assigned: frozenset[str] | None = None
    """The attributes that its body assigns, once somebody has asked."""


class Context(msgspec.Struct):
    """Everything that is known about one program while it is linked."""

    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list)
    warnings: list[Diagnostic] = msgspec.field(default_factory=list)
    origins: dict[tuple[int, str], Origin] = msgspec.field(default_factory=dict)
    """(id of an IR node, field or empty) -> where it was written."""
    constants: dict[str, float] = msgspec.field(default_factory=dict)
    """`let` -> value; while lets are folded, of those above."""
    lets: dict[str, ast.Identifier] = msgspec.field(default_factory=dict)
    """All lets, wherever they stand."""
    definitions: dict[str, Definition] = msgspec.field(default_factory=dict)
    pools: dict[str, Family] = msgspec.field(default_factory=dict)
    stages: dict[str, Family] = msgspec.field(default_factory=dict)
    connectors: set[str] = msgspec.field(default_factory=set)
    executors: set[str] = msgspec.field(default_factory=set)
    attributes: set[str] = msgspec.field(default_factory=set)
    kept_bindings: set[str] = msgspec.field(default_factory=set)
    """The attributes that hold admission bindings."""
    server: ast.Block | None = None
    readable: bool = True
    """Whether all of the text could be read; else nothing is said about what is missing."""
    unreadable: set[str] = msgspec.field(default_factory=set)
    """Names that may be declared in parts that could not be read or folded: nothing is said about them."""
    position: int = 0
    """The item that is being linked; a serving form finds its stage among those above it (R-A-098)."""
    defs_above: int = 0
    """The item, or the def spliced into it, that is being linked; it may use the defs above it (R-A-011)."""
    calls: tuple[Place, ...] = ()
    """The calls of defs around the node that is being linked."""
    _next_id: int = 0
    _next_site: int = 0
    _nodes: int = 0
    _reported: set[tuple[str, str, str]] = msgspec.field(default_factory=set)
    _alive: list[Node] = msgspec.field(default_factory=list)
    """Keeps ids from being used twice."""

    def error(self, code: str, message: str, place: Place, *, help: str | None = None) -> None:
        """Report a mistake."""
        self.report(Diagnostic(code, message, help=help), Origin(place, self.calls))

    def check_value_name(self, name: ast.Identifier) -> None:
        """Report a word that no value and no def may be named (R-A-004)."""
        if name.text in RETIRED_WORDS:
            message = f"`{name.text}` is a word kept out of use and names no value"
            self.error("E106", message, name.place, help="choose another name")

    def report(self, diagnostic: Diagnostic, origin: Origin | None) -> None:
        """Keep a diagnostic, with the place of what it is about."""
        if origin is not None:
            inner = reversed(origin.calls[-MAX_NOTES:])
            notes = tuple(f"in the body spliced in at {_position(call)}" for call in inner)
            place = origin.place
            diagnostic = replace(diagnostic, source=place.source, span=place.span, owner=None, notes=notes)
        key = (diagnostic.code, diagnostic.message, diagnostic.place)
        if key in self._reported:
            return
        self._reported.add(key)
        (self.diagnostics if diagnostic.severity == "error" else self.warnings).append(diagnostic)
        if len(self.diagnostics) >= MAX_ERRORS:
            raise GivenUpError

    def origin(self, node: Node, part: str) -> Origin | None:
        """Where a node, or a field of it, was written."""
        return self.origins.get((id(node), part)) or self.origins.get((id(node), ""))

    def fail(self, code: str, message: str, place: Place, *, help: str | None = None) -> UnlinkableError:
        """Report a mistake and give what is raised for it."""
        self.error(code, message, place, help=help)
        return UnlinkableError()

    def mark(self, node: N, place: Place, part: str = "") -> N:
        """Remember where an IR node, or a field of it, was written; the innermost place is kept."""
        self.count(place)
        self._alive.append(node)
        self.origins.setdefault((id(node), part), Origin(place, self.calls))
        return node

    def count(self, place: Place) -> None:
        """Count a node, or a def spliced in; give up where they do not come to an end."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            message = f"the program has more than {MAX_NODES} nodes once its defs are spliced in"
            self.error("E216", message, place)
            raise GivenUpError

    def statement_places(self) -> dict[int, Place]:
        """The places of all statements by number."""
        statements = (node for node in self._alive if isinstance(node, Statement))
        return {node.id: self.origins[id(node), ""].place for node in statements}

    def statement_id(self) -> int:
        """The number of the next statement."""
        self._next_id += 1
        return self._next_id - 1

    def draw_site(self) -> int:
        """The number of the next draw in this section."""
        self._next_site += 1
        return self._next_site - 1

    def begin_section(self) -> None:
        """Number draws from 0 again."""
        self._next_site = 0

    @contextmanager
    def at_call(self, calls: tuple[Place, ...], defs_above: int) -> Iterator[None]:
        """Inside the bodies of defs that these calls splice in, where the defs above an item may be used."""
        outer = self.calls, self.defs_above
        self.calls, self.defs_above = calls, defs_above
        try:
            yield
        finally:
            self.calls, self.defs_above = outer

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Link something to look at it only: its draws are not counted."""
        site = self._next_site
        try:
            yield
        finally:
            self._next_site = site

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Go on behind a part that could not be linked."""
        with suppress(UnlinkableError):
            yield


def _position(place: Place) -> str:
    line, column = place.source.position(place.span.start)
    return f"{place.source.name}:{line}:{column}"
