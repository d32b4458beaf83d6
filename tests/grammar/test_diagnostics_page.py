"""docs/diagnostics.md lists every code, and every example gives the message that it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from serq.errors import CompileError
from serq.grammar import link_program
from serq.ir.codec import decode
from serq.source import Diagnostic, SourceFile
from tests.grammar.texts import errors
from tests.shared import ROOT

PAGE = (ROOT / "docs" / "diagnostics.md").read_text("utf-8")
WITHOUT_EXAMPLE = {"E221", "E432", "E439", "W608"}


@dataclass(frozen=True)
class Example:
    code: str
    language: str
    text: str
    message: str


def examples() -> Iterator[Example]:
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        code = section.split(":", 1)[0]
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
        if blocks:
            (language, text), (_, message) = blocks
            yield Example(code, language, text.removesuffix("\n"), message.removesuffix("\n"))


def found(example: Example) -> tuple[Diagnostic, ...]:
    try:
        if example.language == "json":
            decode(example.text.encode())
            return ()
        return link_program(SourceFile("example.sq", example.text)).warnings
    except CompileError as error:
        return error.diagnostics


@pytest.mark.parametrize("example", list(examples()), ids=lambda example: example.code)
def test_an_example_gives_its_code_and_nothing_else(example: Example) -> None:
    diagnostics = found(example)
    assert [diagnostic.code for diagnostic in diagnostics] == [example.code]
    assert "\n\n".join(diagnostic.render() for diagnostic in diagnostics) == example.message
    warning = example.code.startswith("W")
    assert all((diagnostic.severity == "warning") == warning for diagnostic in diagnostics)


def test_the_page_lists_every_code() -> None:
    files = [
        *(ROOT / "serq" / "grammar").rglob("*.py"),
        *(ROOT / "serq" / "ir").rglob("*.py"),
        ROOT / "serq" / "api.py",
    ]
    used = {code for file in files for code in re.findall(r'"([EW]\d{3})"', file.read_text("utf-8"))}
    listed = re.findall(r"^### ([EW]\d{3}):", PAGE, flags=re.MULTILINE)
    assert sorted(listed) == sorted(used)
    assert {example.code for example in examples()} == used - WITHOUT_EXAMPLE


def test_a_value_that_cannot_be_set() -> None:
    (wrong,) = errors("let rate = 1;", {"rat": 2.0})
    assert wrong.code == "E221"
    assert wrong.help == "did you mean `rate`?"
