"""Documents: words and the spaces between them, grouped by what goes on one line together.

This is the usual algebra of pretty printers (Oppen 1980, Wadler 1998): a group is written on one line where
it fits, else every space that stands directly in it and may break becomes a line end. Words and gaps are
named by their numbers in the text (``serq.grammar.format_words``).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import msgspec

from serq.grammar.format_page import Page, inline_comments
from serq.grammar.format_words import Words

WIDTH: Final = 100
"""Columns of a line; only what cannot be broken, and comments at line ends, goes beyond."""

INDENT: Final = 2


class Break(Enum):
    """Whether a space is a line end."""

    NEVER = auto()
    MAY = auto()
    """Where the innermost group around it does not fit on its line."""
    MUST = auto()


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word."""

    index: int


class Space(msgspec.Struct, frozen=True, gc=False):
    """The gap before word ``index``: ``flat`` on one line, or a line end, and its comments in any case.

    ``keeps_blank`` lets one blank line stand. ``hang`` is the indentation behind a comment that ends
    a line where otherwise none would end.
    """

    index: int
    flat: str = " "
    breaks: Break = Break.NEVER
    keeps_blank: bool = False
    hang: int = INDENT


class Group(msgspec.Struct, frozen=True):
    """What goes on one line where it fits."""

    inner: Document


class Indented(msgspec.Struct, frozen=True):
    """What is indented by ``by`` where it goes to a new line."""

    inner: Document
    by: int = INDENT


Document = Word | Space | Group | Indented | list["Document"]

_Pending = tuple[Document, int, bool]
"""What is still to be written, its indentation, and whether it is on one line for sure."""


def render(document: Document, words: Words) -> str:
    """The text of a document."""
    page = Page()
    pending: list[_Pending] = [(document, 0, False)]
    while pending:
        part, indentation, flat = pending.pop()
        match part:
            case Word(index):
                page.write(words.texts[index])
            case Space():
                _space(page, words, part, indentation, flat)
            case Group(inner):
                fits = flat or _fits(inner, pending, words, WIDTH - page.column)
                pending.append((inner, indentation, fits))
            case Indented(inner, by):
                pending.append((inner, indentation + by, flat))
            case list():
                pending.extend((child, indentation, flat) for child in reversed(part))
    return page.text()


def _space(page: Page, words: Words, space: Space, indentation: int, flat: bool) -> None:
    gap = words.gaps[space.index]
    around = words.around(space.index)
    if space.breaks is Break.MUST or (space.breaks is Break.MAY and not flat):
        page.break_line(gap, around, indentation, INDENT, keeps_blank=space.keeps_blank)
    elif gap.comments:
        page.write_inline(gap, around, indentation + space.hang)
    else:
        page.write(space.flat)


def _fits(group: Document, pending: list[_Pending], words: Words, room: int) -> bool:
    """Whether a group fits on the line, together with what follows it up to the next possible line end."""
    ahead: list[tuple[Document, bool]] = [(group, True)]
    behind = len(pending)
    while room >= 0:
        if not ahead:
            if not behind:
                return True
            behind -= 1
            document, _, flat = pending[behind]
            ahead.append((document, flat))
        part, flat = ahead.pop()
        match part:
            case Word(index):
                room -= len(words.texts[index])
            case Space(index, text, breaks):
                if breaks is Break.MUST or (breaks is Break.MAY and not flat):
                    return not flat
                gap = words.gaps[index]
                if gap.breaks_line:
                    return not flat
                room -= len(inline_comments(gap, words.around(index)) or text)
            case Group(inner) | Indented(inner):
                ahead.append((inner, flat))
            case list():
                ahead.extend((child, flat) for child in reversed(part))
    return False
