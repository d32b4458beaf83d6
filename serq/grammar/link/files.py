"""Reading the files of a program: the one given, and those that it uses (R-A-006)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from serq.errors import DataError, MissingFileError
from serq.grammar import ast
from serq.grammar.build import build
from serq.grammar.link.library import is_shipped, shipped
from serq.grammar.parser import parse
from serq.source import Diagnostic, SourceFile

Loader = Callable[[str, SourceFile], SourceFile]
"""Reads the file that ``use "…"`` names: the path as written, and the file in which it is written and
to which it is relative. One file always gets the same name. Raises DataError, MissingFileError where there is
no such file: one of the library may be meant then."""

MAX_FILES = 1000


class Files(msgspec.Struct):
    """The items of all files in the order of the text, a used file in the place of its first ``use``."""

    items: list[ast.Item] = msgspec.field(default_factory=list)
    diagnostics: list[Diagnostic] = msgspec.field(default_factory=list)
    unreadable: set[str] = msgspec.field(default_factory=set)
    """Names in parts that could not be read."""
    seen: set[str] = msgspec.field(default_factory=set)
    """The names of the files read so far."""
    complete: bool = True
    """Whether there is a tree of every file."""


def read(source: SourceFile, loader: Loader | None) -> Files:
    """All items of a program."""
    files = Files()
    _read(source, loader, files, (source.name,))
    return files


def add_objectives(files: Files, slos: Sequence[str]) -> None:
    """Add objectives that were given beside the program, each as it stands between `slo` and `;`."""
    for text in slos:
        source = SourceFile("--slo", f"slo {text};")
        parsed = parse(source)
        files.diagnostics.extend(parsed.diagnostics)
        items = [] if parsed.tree is None else build(source, parsed.tree).items
        if any(not isinstance(item, ast.Objective) for item in items):
            message = "an objective is one `slo`, such as `ttft p99 < 2`"
            files.diagnostics.append(Diagnostic("E220", message, source, items[-1].place.span))
        files.items.extend(item for item in items if isinstance(item, ast.Objective))


def _read(source: SourceFile, loader: Loader | None, files: Files, chain: tuple[str, ...]) -> None:
    files.seen.add(source.name)
    parsed = parse(source)
    files.diagnostics.extend(parsed.diagnostics)
    files.unreadable |= parsed.skipped
    if parsed.tree is None:
        files.complete = False
        return
    for item in build(source, parsed.tree).items:
        if isinstance(item, ast.Use):
            if any(wrong.span and item.place.span.covers(wrong.span) for wrong in parsed.diagnostics):
                files.complete = False
            else:
                _use(item, loader, files, chain)
        else:
            files.items.append(item)


def _use(item: ast.Use, loader: Loader | None, files: Files, chain: tuple[str, ...]) -> None:
    def refuse(message: str) -> None:
        files.diagnostics.append(Diagnostic("E220", message, item.place.source, item.place.span))
        files.complete = False

    try:
        source = _found(item, loader)
    except DataError as error:
        refuse(str(error))
        return
    if source.name in chain:
        refuse(f"`{item.path}` uses itself: {' -> '.join([*chain, source.name])}")
    elif len(chain) > MAX_FILES:
        refuse("files use one another without end")
    elif source.name not in files.seen:
        _read(source, loader, files, (*chain, source.name))


def _found(item: ast.Use, loader: Loader | None) -> SourceFile:
    """The file that is used: one beside its user goes first, so that no program changes its meaning."""
    if loader is None and not is_shipped(item.path):
        raise DataError("`use` needs a file to start from, and this program is given as text")
    try:
        if loader is not None:
            return loader(item.path, item.place.source)
    except MissingFileError:
        if not is_shipped(item.path):
            raise
    return shipped(item.path)
