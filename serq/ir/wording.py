"""Words of messages and reports."""

from __future__ import annotations


def counted(number: int, noun: str, written: str | None = None) -> str:
    """`1 request`, `2 requests`; the number as it is ``written``, where that is another way."""
    return f"{number if written is None else written} {noun}{'' if number == 1 else 's'}"
