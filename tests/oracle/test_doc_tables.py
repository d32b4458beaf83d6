"""The tables on docs/engine.md are what the commands print today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.doc_tables import pages, printed


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: page.name)
def test_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "```text\n```" not in text
    assert printed(text) == text, "python -m tests.oracle.doc_tables --write"
