"""An argument of a def is read where the call stands (R-A-009)."""

from __future__ import annotations

import pytest

from serq.errors import CompileError
from serq.grammar import link_program
from serq.source import SourceFile

BEFORE = "def twice(a) = a + a;\ndef next(a) = a + 1;\npool p[3] { }\n"


def linked(session: str) -> object:
    text = BEFORE + "session { " + session + " }\nrun { horizon 1; }\n"
    return link_program(SourceFile("test.sq", text)).program.session


def test_an_argument_may_use_a_def_that_stands_below_the_one_called() -> None:
    assert linked("observe v = twice(next(serial));") == linked("observe v = (serial + 1) + (serial + 1);")


def test_so_may_the_index_of_an_argument() -> None:
    read = "def seen(q) = used(q);\n"
    text = read + BEFORE + "session { observe v = seen(p[next(0)]); }\nrun { horizon 1; }\n"
    plain = BEFORE + "session { observe v = used(p[0 + 1]); }\nrun { horizon 1; }\n"
    assert (
        link_program(SourceFile("a.sq", text)).program.session
        == link_program(SourceFile("b.sq", plain)).program.session
    )


def test_a_body_may_not() -> None:
    with pytest.raises(CompileError, match="below"):
        link_program(SourceFile("test.sq", "def f(a) = g(a);\ndef g(a) = a;\nrun { horizon 1; }\n"))
