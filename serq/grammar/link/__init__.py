"""From the syntax tree to the IR: what every name means, what every form stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from serq.ir.nodes import Program
from serq.source import Diagnostic, SourceFile, SourceMap

Loader = Callable[[str], SourceFile]
"""Reads the file that ``use "…"`` names; the path is as written."""


@dataclass(frozen=True)
class Linked:
    """A program ready to run, where its statements stand in the text, and what looks unintended."""

    program: Program
    source_map: SourceMap
    warnings: tuple[Diagnostic, ...] = ()


def link_program(
    source: SourceFile, *, sets: Mapping[str, str | float] | None = None, loader: Loader | None = None
) -> Linked:
    """Compile a program text.

    Args:
        source: the text; its name is what messages say.
        sets: replacements for the values of `let`s: a number, or the text of a constant expression.
        loader: reads the files of ``use``; None refuses ``use`` (R-A-006), as for a text without a file.

    Raises:
        CompileError: with every independent mistake found.
    """
    raise NotImplementedError
