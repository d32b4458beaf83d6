"""The code blocks of README and docs: found, run, and their outputs refreshed.

A ```serq block is a program; `//> x: 1 2` lists the samples of an observation, `//! words` says that the
program is refused. The comment `<!-- path -->` above a block says that it is that file. A ```sh block holds
`serq` commands, and a ```text output block is what the commands above it print. All ```python blocks of a
page share their names. Refresh the files and outputs shown with `python -m tests.docs.blocks`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from serq.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES.remove(ROOT / "docs" / "diagnostics.md")
"""Every page but the one of diagnostics, whose programs `tests/grammar/test_diagnostics_page.py` compiles."""

_BLOCK = re.compile(r"(?:<!-- (?P<file>\S+) -->\n)?```(?P<kind>[^\n`]*)\n(?P<text>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block of one page. ``start`` and ``end`` are the offsets of its text."""

    page: Path
    line: int
    kind: str
    text: str
    file: str | None
    start: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """All blocks of a page, in order."""
    text = page.read_text("utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("kind")) + 1
        span = match.span("text")
        yield Block(page, line, match["kind"].strip(), match["text"], match["file"], *span)


def serq_commands(block: Block) -> list[list[str]]:
    """The arguments of the `serq` commands of a shell block."""
    lines = [shlex.split(line, comments=True) for line in block.text.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "serq"]


def output_of(commands: list[list[str]]) -> str:
    """What the commands print, run from the root of the project."""
    printed = []
    for command in commands:
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, f"serq {shlex.join(command)}: {result.output}"
        printed.append(result.stdout)
    return "\n".join(printed)


def refreshed(page: Path) -> str:
    """The page with its files and outputs as they are now."""
    text = page.read_text("utf-8")
    out, end, commands = [], 0, list[list[str]]()
    for block in blocks(page):
        now = block.text
        if block.kind == "sh":
            commands = serq_commands(block)
        elif block.kind == "text output":
            now = output_of(commands)
        elif block.file is not None:
            now = (ROOT / block.file).read_text("utf-8")
        out += [text[end : block.start], now]
        end = block.end
    return "".join([*out, text[end:]])


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(refreshed(path), "utf-8")
