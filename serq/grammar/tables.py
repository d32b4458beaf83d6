"""The parsing tables: made from ``serq.lark`` beforehand, loaded in a few milliseconds when a text is parsed.

``python -m serq.grammar`` writes them anew after a change of the grammar; a test holds both together.
"""

from __future__ import annotations

import gc
import io
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from lark import Lark, Token

HERE: Final = Path(__file__).parent
GRAMMAR: Final = HERE / "serq.lark"
TABLES: Final = HERE / "serq.tables"


class _Postlex:
    """Keeps the terminals of broken tokens in the lexer, although no rule of the grammar uses them."""

    always_accept = ("BAD_NUMBER", "UNCLOSED_STRING", "UNCLOSED_COMMENT", "BAD_CHARACTER")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


def make() -> bytes:
    """The tables of the grammar as it stands."""
    lark = Lark(
        GRAMMAR.read_text("utf-8"),
        parser="lalr",
        lexer="basic",
        start="program",
        propagate_positions=True,
        maybe_placeholders=True,
        postlex=_Postlex(),
    )
    buffer = io.BytesIO()
    lark.save(buffer, exclude_options=["postlex"])
    return zlib.compress(buffer.getvalue(), 9)


@cache
def load() -> Lark:
    """The parser, from the shipped tables.

    All that is made stays, so that looking for garbage meanwhile would only take time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return Lark.load(io.BytesIO(zlib.decompress(TABLES.read_bytes())))
    finally:
        if collects:
            gc.enable()
