"""The page that a formatted program is written on: lines, and where the comments go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from serq.grammar.format_words import CLOSING, OPENING, Comment, Gap

_BEFORE_TRAILING: Final = "  "
"""Between code and the comment at the end of its line."""

_NO_SPACE_BEFORE: Final = frozenset(")],;")


@dataclass(frozen=True, slots=True)
class _Line:
    code: str
    indentation: int = 0
    comment: Comment | None = None
    """The comment at its end."""

    def continues(self, above: _Line) -> bool:
        """Whether its comment goes under the one of the line above: the lines are alike or it stood so."""
        if self.comment is None or above.comment is None:
            return False
        alike = self.indentation == above.indentation and not self.code.endswith(tuple(OPENING))
        return alike or self.comment.column == above.comment.column


def inline_comments(gap: Gap, around: tuple[str, str]) -> str:
    """The block comments of a gap that stays on one line, with the spaces around them."""
    if not gap.comments:
        return ""
    left, right = around
    before = "" if left in OPENING - {"{"} else " "
    after = "" if right in _NO_SPACE_BEFORE else " "
    return before + " ".join(comment.text for comment in gap.comments) + after


class Page:
    """Lines written so far, and the one that is being written."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._code = ""
        self._indentation = 0
        self._comment: Comment | None = None

    @property
    def column(self) -> int:
        """Where the next word goes."""
        return len(self._code)

    def write(self, text: str) -> None:
        """Go on with the line; a comment at its end turns out to stand in its middle."""
        if self._comment is not None:
            self._code += _BEFORE_TRAILING + self._comment.text + " "
            self._comment = None
        self._code += text

    def write_inline(self, gap: Gap, around: tuple[str, str], indentation: int) -> None:
        """The comments of a gap inside a line; one to the end of the line continues it at ``indentation``."""
        if not gap.breaks_line:
            self.write(inline_comments(gap, around))
            return
        left, right = around
        for index, comment in enumerate(gap.comments):
            if comment.to_line_end:
                self._write_comment(comment) if self._at_line_start() else self._trail(comment)
                self._end_line(indentation)
                continue
            if not (self._at_line_start() or (index == 0 and left in OPENING)):
                self.write(" ")
            self._write_comment(comment)
        if not self._at_line_start() and right not in _NO_SPACE_BEFORE:
            self.write(" ")

    def break_line(
        self, gap: Gap, around: tuple[str, str], indentation: int, inner: int, *, keeps_blank: bool
    ) -> None:
        """End the line at a gap and begin the next at ``indentation``; its comments stand between.

        Comments before a closing bracket belong to what it closes and are indented by ``inner`` more.
        """
        left, right = around
        closes = right in CLOSING
        at_comments = indentation + inner if closes else indentation
        trailing = self._trailing(gap, around)
        for comment in trailing:
            self._trail(comment)
        own = gap.comments[len(trailing) :]
        own = own[self._continue_trailing(own, gap.column) :]
        blank = keeps_blank and left not in OPENING
        for index, comment in enumerate(own):
            if index and not comment.newlines:
                self.write(" ")
            else:
                self._end_line(at_comments, blank=blank and comment.newlines > 1)
            self._write_comment(comment)
            blank = keeps_blank
        if not right:
            return
        if own and not (gap.newlines or closes):
            self.write(" ")
        else:
            self._end_line(indentation, blank=blank and not closes and gap.newlines > 1)

    def _trailing(self, gap: Gap, around: tuple[str, str]) -> list[Comment]:
        """The comments that belong to the word on their left: on its line, with a line end after them."""
        left, right = around
        if not left or not (gap.lines or right in CLOSING or not right):
            return []
        return list(takewhile(lambda comment: not comment.newlines, gap.comments))

    def _continue_trailing(self, own: Sequence[Comment], column_of_word: int) -> int:
        """Write the comments that go on under the one at the end of the line; how many they are.

        They stand under it line by line, and what comes next does not.
        """
        above = self._comment
        if above is None or not above.to_line_end:
            return 0

        def goes_on(comment: Comment) -> bool:
            return comment.to_line_end and comment.newlines == 1 and comment.column == above.column

        count = sum(1 for _ in takewhile(goes_on, own))
        following = own[count].column if count < len(own) else column_of_word
        if following == above.column:
            return 0
        for comment in own[:count]:
            self._end_line(self._indentation)
            self._trail(comment)
        return count

    def _trail(self, comment: Comment) -> None:
        """Put a comment at the end of the line."""
        if comment.rest:
            self.write(_BEFORE_TRAILING)
            self._write_comment(comment)
            return
        if self._comment is not None:
            self.write("")
        self._comment = comment

    def _write_comment(self, comment: Comment) -> None:
        column = self.column
        self.write(comment.text)
        for relative, line in comment.rest:
            self._end_line(max(0, column + relative) if line else 0)
            self.write(line)

    def _at_line_start(self) -> bool:
        return self._comment is None and not self._code.strip()

    def _end_line(self, indentation: int, *, blank: bool = False) -> None:
        if self._lines or not self._at_line_start():
            self._lines.append(_Line(self._code.rstrip(), self._indentation, self._comment))
            if blank:
                self._lines.append(_Line(""))
        self._code, self._indentation, self._comment = " " * indentation, indentation, None

    def text(self) -> str:
        """All lines; every one ends, and a page with nothing on it has none."""
        self._end_line(0)
        return "".join(line + "\n" for line in _aligned(self._lines))


def _aligned(lines: Sequence[_Line]) -> Iterator[str]:
    """The lines with their comments, which stand in columns where lines follow one another."""
    block: list[_Line] = []
    for line in lines:
        if block and not line.continues(block[-1]):
            yield from _in_columns(block)
            block = []
        block.append(line)
    yield from _in_columns(block)


def _in_columns(block: Sequence[_Line]) -> Iterator[str]:
    width = max((len(line.code) for line in block), default=0)
    for line in block:
        if line.comment is None:
            yield line.code
        else:
            yield line.code.ljust(width) + _BEFORE_TRAILING + line.comment.text
