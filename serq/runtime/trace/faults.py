"""Bad rows of the strict formats: all of them are found, the first is described, the others are counted."""

from __future__ import annotations

import msgspec

from serq.errors import DataError

_LINES_NAMED = 5


class FaultyRow(Exception):  # noqa: N818 - it is one row's fault, not yet an error of the run
    """Why a row cannot be used."""


class Faults:
    """The bad rows of one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._rows: list[tuple[int, str]] = []

    def add(self, line: int, reason: str) -> None:
        """Line ``line`` (from 1) is bad because of ``reason``."""
        self._rows.append((line, reason))

    def raise_any(self, *, empty: bool) -> None:
        """Raise DataError where a row was bad, or where the trace is ``empty``."""
        if not self._rows:
            if empty:
                raise DataError(f"{self.path}: an empty trace: no row")
            return
        (line, reason), *others = self._rows
        more = ""
        if others:
            named = ", ".join(str(number) for number, _ in others[:_LINES_NAMED])
            dots = ", ..." if len(others) > _LINES_NAMED else ""
            more = f" ({len(others)} more bad {'row' if len(others) == 1 else 'rows'}: line {named}{dots})"
        raise DataError(f"{self.path}:{line}: {reason}{more}")


def whole_number(name: str, field: str) -> int:
    """A count of tokens written in digits; raises FaultyRow."""
    if not (field.isascii() and field.isdigit() and len(field) <= 15):
        raise FaultyRow(f"{name} {field!r} is not a whole number of tokens")
    return int(field)


def plain_reason(error: msgspec.MsgspecError) -> str:
    """msgspec's message with the name of the key instead of its JSON path."""
    reason, _, path = str(error).partition(" - at `$.")
    return f"`{path.rstrip('`')}`: {reason[0].lower()}{reason[1:]}" if path else reason
