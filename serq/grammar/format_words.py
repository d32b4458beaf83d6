"""A program text as its words and the gaps between them, where white space and comments stand.

The words are the parser's tokens and never change. A gap knows its comments and how many line ends stood
where; the columns and the number of spaces in it are forgotten, but for those that tell which comments were
written one under the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lark import Token

OPENING: Final = frozenset("([{")
CLOSING: Final = frozenset(")]}")

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TAB: Final = 8
"""Columns between tab stops of a text that is read; none is written."""


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment.

    ``text`` is its first line; ``rest`` the others of a block comment, each with its indentation relative to
    the ``/*``. ``column`` is where it stood, ``newlines`` the line ends between it and what stood before it.
    """

    text: str
    rest: tuple[tuple[int, str], ...]
    column: int
    newlines: int

    @property
    def to_line_end(self) -> bool:
        """Whether nothing can follow it on its line."""
        return self.text.startswith("//")

    @property
    def breaks_line(self) -> bool:
        """Whether what follows it stands on another line than it begins on."""
        return self.to_line_end or bool(self.rest)


@dataclass(slots=True)
class Gap:
    """What stands between two words.

    ``newlines`` counts the line ends in front of the word behind the gap, as far back as the last comment;
    ``column`` is where that word stood, if comments stand before it.
    """

    comments: tuple[Comment, ...] = ()
    newlines: int = 0
    column: int = 0

    @property
    def breaks_line(self) -> bool:
        """Whether its comments need more than the line they begin on."""
        return any(comment.breaks_line for comment in self.comments)

    @property
    def ends_line(self) -> bool:
        """Whether a comment to the end of a line is among its comments."""
        return any(comment.to_line_end for comment in self.comments)

    @property
    def lines(self) -> int:
        """How many line ends it holds."""
        within = sum(comment.newlines + len(comment.rest) for comment in self.comments)
        return self.newlines + within

    def take(self, other: Gap, *, in_front: bool) -> None:
        """Move the comments of a neighbouring gap here; a comment to the end of a line keeps its line end."""
        comments = other.comments + self.comments if in_front else self.comments + other.comments
        other.comments = ()
        after_line_end = False
        placed = []
        for comment in comments:
            newlines = max(1, comment.newlines) if after_line_end else comment.newlines
            placed.append(replace(comment, newlines=newlines))
            after_line_end = comment.to_line_end
        self.comments = tuple(placed)
        if after_line_end:
            self.newlines = max(1, self.newlines)


@dataclass(frozen=True, slots=True)
class Words:
    """A text cut into words: ``gaps[i]`` stands before ``texts[i]``, and one gap behind them all."""

    texts: list[str]
    gaps: list[Gap]

    def around(self, index: int) -> tuple[str, str]:
        """The words to the left and right of gap ``index``; empty at either end of the text."""
        left = self.texts[index - 1] if index else ""
        return left, self.texts[index] if index < len(self.texts) else ""


def cut(text: str, tokens: Sequence[Token]) -> Words:
    """Cut a text that has no mistakes into its words and gaps."""
    gaps = []
    end = 0
    for token in tokens:
        assert token.start_pos is not None and token.end_pos is not None
        gaps.append(_gap(text, end, token.start_pos))
        end = token.end_pos
    gaps.append(_gap(text, end, len(text)))
    return Words([str(token) for token in tokens], gaps)


def _gap(text: str, start: int, end: int) -> Gap:
    if "/" not in text[start:end]:
        return Gap((), text.count("\n", start, end))
    comments = []
    at = start
    for match in _COMMENT.finditer(text, start, end):
        comments.append(_comment(text, match.start(), match.group(), text.count("\n", at, match.start())))
        at = match.end()
    return Gap(tuple(comments), text.count("\n", at, end), _column(text, end))


def _comment(text: str, start: int, written: str, newlines: int) -> Comment:
    column = _column(text, start)
    first, *further = written.split("\n")
    rest = []
    for line in further:
        stripped = line.strip()
        indentation = line[: len(line) - len(line.lstrip())].expandtabs(_TAB)
        rest.append((len(indentation) - column, stripped))
    return Comment(first.rstrip(), tuple(rest), column, newlines)


def _column(text: str, offset: int) -> int:
    line_start = text.rfind("\n", 0, offset) + 1
    return len(text[line_start:offset].expandtabs(_TAB))
