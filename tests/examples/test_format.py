"""All examples have the usual form."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.grammar.printer import format_source
from serq.source import SourceFile
from tests.shared import ROOT


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.sq")), ids=lambda path: path.name)
def test_examples_are_formatted(path: Path) -> None:
    text = path.read_text("utf-8")
    assert format_source(SourceFile(path.name, text)) == text, f"run `serq fmt {path}`"
