"""Program texts, places in them, and how a message about a place is shown."""

from __future__ import annotations

from bisect import bisect_right
from codecs import BOM_UTF8, IncrementalDecoder, getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec

from serq.errors import DataError, MissingFileError

Severity = Literal["error", "warning"]


def read_text(path: str | Path, what: str) -> str:
    """The text of a file that people write: UTF-8, a byte order mark dropped, line ends as they are.

    ``what`` names the file's role in messages ("program", "trace"). Raises DataError where the file is
    missing, a directory, not readable, or not text.
    """
    with _named_errors(path, what):
        data = Path(path).read_bytes()
    return as_text(data, f"{what} {path}")


def as_text(data: bytes, name: str) -> str:
    """``data`` as UTF-8, a byte order mark dropped. Raises DataError about ``name`` for anything else."""
    if b"\0" in data:
        raise DataError(f"{name}: holds binary data, not text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: is not UTF-8 text (byte {error.start})") from None


def check_text(path: str | Path, what: str) -> None:
    """Raise what :func:`read_text` would raise, without holding the file in memory."""
    decoder = getincrementaldecoder("utf-8")()
    before, bad_byte = 0, None
    with _named_errors(path, what), open(path, "rb") as file:
        if file.read(len(BOM_UTF8)) != BOM_UTF8:
            file.seek(0)
        while block := file.read(_BLOCK):
            if b"\0" in block:
                raise DataError(f"{what} {path}: holds binary data, not text")
            if bad_byte is None:
                bad_byte = _undecodable(decoder, block, before)
            before += len(block)
        if bad_byte is None:
            bad_byte = _undecodable(decoder, b"", before, final=True)
    if bad_byte is not None:
        raise DataError(f"{what} {path}: is not UTF-8 text (byte {bad_byte})")


_BLOCK = 2**20


def _undecodable(
    decoder: IncrementalDecoder, block: bytes, before: int, *, final: bool = False
) -> int | None:
    """The first byte that is no UTF-8, if it shows in ``block``, ahead of which there are ``before``."""
    held_back = len(decoder.getstate()[0])
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError as error:
        return before - held_back + error.start
    return None


def blocks_of(path: str | Path, what: str) -> Iterator[str]:
    """The text of a file in blocks (:func:`blocks_in`); a byte order mark is dropped.

    Raises DataError where the file cannot be opened.
    """
    with _named_errors(path, what), open(path, encoding="utf-8-sig", newline="\n") as file:
        yield from blocks_in(file)


def blocks_in(file: TextIO) -> Iterator[str]:
    """A text in blocks of some thousand characters, none of them empty, that end where a line ends."""
    while block := file.read(_CHARACTERS_A_BLOCK):
        yield block + file.readline()


_CHARACTERS_A_BLOCK = 2**13


def lines_in(block: str) -> list[str]:
    """The lines of a block without their line feeds. Lines end in a line feed and in nothing else."""
    return block.removesuffix("\n").split("\n")


@contextmanager
def _named_errors(path: str | Path, what: str) -> Iterator[None]:
    """Errors of the file system as DataErrors that name the file and its role."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError(f"{what} {path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{what} {path}: is a directory, not a file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{what} {path}: cannot be read ({_reason(error)})") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class Span(msgspec.Struct, frozen=True):
    """A half-open range of characters ``[start, end)`` of one source file."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))

    def covers(self, other: Span) -> bool:
        """Whether the other lies within this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True)
class SourceFile:
    """A program text and the name under which messages speak of it."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(i + 1 for i, char in enumerate(self.text) if char == "\n")]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both counted from 1, of the character at ``offset``."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line ``number`` (from 1) without its end."""
        start = self._line_starts[number - 1]
        following = self._line_starts[number] if number < len(self._line_starts) else len(self.text) + 1
        return self.text[start : following - 1].rstrip("\r")


class Place(msgspec.Struct, frozen=True):
    """A range of characters and the file it is in."""

    source: SourceFile
    span: Span

    def to(self, other: Place) -> Place:
        """From the start of this place to the end of ``other``, which is in the same file."""
        return Place(self.source, self.span.to(other.span))

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source.text[self.span.start : self.span.end]


@dataclass(frozen=True)
class Diagnostic:
    """One message about one place: what is wrong, where, and what would be right.

    ``code`` is stable (documented in docs/diagnostics.md); ``owner`` names the place for programs that
    have no text (an IR file), such as ``stage `engine` `` or ``session, statement 12``.
    """

    code: str
    message: str
    source: SourceFile | None = None
    span: Span | None = None
    owner: str | None = None
    severity: Severity = "error"
    help: str | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def place(self) -> str:
        """``file:line:column`` where the place has a text, else the owner, else the empty string."""
        if self.source is not None and self.span is not None:
            line, column = self.source.position(self.span.start)
            return f"{self.source.name}:{line}:{column}"
        if self.source is not None:
            return self.source.name
        return self.owner or ""

    def render(self) -> str:
        """The message as people read it: place, text, the line with a caret, help and notes."""
        place = f"{self.place}: " if self.place else ""
        parts = [f"{place}{self.severity}[{self.code}]: {self.message}"]
        if self.source is not None and self.span is not None:
            parts.extend(self._excerpt(self.source, self.span))
        if self.help:
            parts.append(f"  help: {self.help}")
        parts.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(parts)

    @staticmethod
    def _excerpt(source: SourceFile, span: Span) -> list[str]:
        number, column = source.position(span.start)
        line = source.line(number)
        width = max(1, min(span.end - span.start, len(line) - column + 1))
        line, column, width = _window(line, column, width)
        before = "".join("\t" if char == "\t" else " " for char in line[: column - 1])
        line = "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in line)
        gutter = " " * len(str(number))
        return [f" {number} | {line}", f" {gutter} | {before}{'^' * width}"]

    def to_json(self) -> dict[str, Any]:
        """The message as plain data, for tools (``--json``)."""
        out: dict[str, Any] = {"code": self.code, "severity": self.severity, "message": self.message}
        if self.source is not None:
            out["file"] = self.source.name
        if self.source is not None and self.span is not None:
            out["line"], out["column"] = self.source.position(self.span.start)
            out["end_line"], out["end_column"] = self.source.position(self.span.end)
        if self.owner is not None:
            out["owner"] = self.owner
        if self.help:
            out["help"] = self.help
        if self.notes:
            out["notes"] = list(self.notes)
        return out


EXCERPT_WIDTH = 120
"""Characters of a line that a message shows."""


def _window(line: str, column: int, width: int) -> tuple[str, int, int]:
    """The part of a long line around the place in question; the column and the width in it."""
    if len(line) <= EXCERPT_WIDTH:
        return line, column, width
    start = max(0, min(column - 1 - EXCERPT_WIDTH // 3, len(line) - EXCERPT_WIDTH))
    part = line[start : start + EXCERPT_WIDTH]
    left = "…" if start else ""
    right = "…" if start + EXCERPT_WIDTH < len(line) else ""
    column += len(left) - start
    return left + part + right, column, min(width, len(left) + len(part) - column + 1)


class SourceMap(msgspec.Struct, frozen=True):
    """Where the statements of a compiled program stand in its text: statement number -> place.

    A program may be spread over several files (``use``), so every place names its own.
    """

    source: SourceFile
    statements: dict[int, Place]
    expectations: tuple[Place, ...] = ()
    """Where each expectation of the program stands, in their order."""

    def locate(self, statement: int) -> Place | None:
        """The place of statement ``statement``, None for one that no text wrote."""
        return self.statements.get(statement)
