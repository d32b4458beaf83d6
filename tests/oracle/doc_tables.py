"""Tables in the documentation are what the command above them prints.

    python -m tests.oracle.doc_tables --write     print them again into docs/

A table is a fenced block after a comment ``<!-- serq oracle show ... -->``.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from serq.cli import main
from serq.oracle.table import LEGEND
from tests.shared import ROOT

_TABLE = re.compile(r"(<!-- serq (oracle show [^\n]*?) -->\n```text\n)(.*?)(```\n)", re.DOTALL)


def pages() -> Iterator[Path]:
    """Pages with tables."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if _TABLE.search(path.read_text("utf-8")):
            yield path


def printed(page: str) -> str:
    """``page`` with its tables printed again."""
    return _TABLE.sub(lambda found: found[1] + _show(found[2]) + found[4], page)


def _show(command: str) -> str:
    arguments = [str(ROOT / word) if word.startswith("tests/") else word for word in shlex.split(command)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.split(f"\n{LEGEND}")[0].rstrip("\n") + "\n"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    for changed in pages():
        changed.write_text(printed(changed.read_text("utf-8")), "utf-8")
