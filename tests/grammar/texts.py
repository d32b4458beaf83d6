"""Short ways to compile a text in a test."""

from __future__ import annotations

from collections.abc import Mapping

from serq.errors import CompileError
from serq.grammar import Linked, link_program
from serq.ir.nodes import Program
from serq.source import Diagnostic, SourceFile


def link(text: str, sets: Mapping[str, str | float] | None = None) -> Linked:
    return link_program(SourceFile("test.sq", text), sets=sets)


def program(text: str) -> Program:
    return link(text).program


def errors(text: str, sets: Mapping[str, str | float] | None = None) -> tuple[Diagnostic, ...]:
    """The errors of a text; empty where it compiles."""
    try:
        link(text, sets)
    except CompileError as error:
        return error.diagnostics
    return ()


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in errors(text)]


def pointed(diagnostic: Diagnostic) -> str:
    """The characters under the caret."""
    assert diagnostic.source is not None and diagnostic.span is not None
    return diagnostic.source.text[diagnostic.span.start : diagnostic.span.end]


def in_session(statements: str, declarations: str = "") -> str:
    """A program of one session."""
    run = "run { horizon 10; }"
    return f"{declarations}\nworkload {{ arrive batch(1); }}\nsession {{\n{statements}\n}}\n{run}\n"
