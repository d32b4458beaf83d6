"""What programs become when they are formatted."""

from __future__ import annotations

from textwrap import dedent

from serq.grammar.printer import format_source
from serq.source import SourceFile


def formatted(text: str) -> str:
    return format_source(SourceFile("x.sq", text))


def becomes(written: str, expected: str) -> None:
    """A text becomes another, which stays as it is."""
    written, expected = dedent(written), dedent(expected).lstrip("\n")
    assert formatted(written) == expected
    assert formatted(expected) == expected


def stays(text: str) -> None:
    becomes(text.lstrip("\n"), text)
