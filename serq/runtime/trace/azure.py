"""The Azure LLM inference CSV: `TIMESTAMP,ContextTokens,GeneratedTokens`, a row is a session of one turn."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from serq.runtime.trace.blocks import RowReader, parts_in
from serq.runtime.trace.columns import Trace
from serq.runtime.trace.faults import Faults, FaultyRow, whole_number

HEADER: Final = "TIMESTAMP,ContextTokens,GeneratedTokens"

_ROW: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d):([0-5]\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))?"
    r",(\d{1,15}),(\d{1,15})",
    re.ASCII,
)
_PLAIN: Final = {
    digits: re.compile(
        rf"(?:\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d:[0-5]\d\.\d{{{digits}}}{zone},\d{{1,15}},\d{{1,15}}\r?\n)+",
        re.ASCII,
    )
    for digits, zone in ((7, ""), (6, r"\+00:00"))
}
"""Blocks of rows as they were published, in 2023 and in 2024, by the digits of their fractions."""

_COUNTS: Final = msgspec.json.Decoder(list[float])

_SECOND: Final = 10**9


def azure_parts(path: str, blocks: Iterable[str]) -> Iterator[Trace]:
    """The parts of an Azure trace, whose text comes in ``blocks`` of whole lines.

    Raises DataError at its end, naming every bad row.
    """
    return parts_in(AzureReader(path), blocks)


class AzureReader(RowReader):
    """Reads the rows of one file; times are those after its first row."""

    def __init__(self, path: str) -> None:
        self.part = Trace(format="azure", times=array("d"))
        self._after_header = False
        self._start: int | None = None
        """The first row's time, in nanoseconds since 1970."""
        self._minutes = _Minutes()
        self._faults = Faults(path)

    def read_line(self, number: int, line: str) -> None:
        """Read one line, or note what is wrong with it."""
        row = line.strip()
        if not self._after_header or not row:
            self._after_header = True
            return
        try:
            instant, new, out = _parse(row, self._minutes)
        except FaultyRow as fault:
            self._faults.add(number, str(fault))
            return
        if self._start is None:
            self._start = instant
        self.part.add_session((instant - self._start) / _SECOND, new, out)

    def read_plain(self, block: str) -> int:
        """Read a block whose rows are all of one of the published forms."""
        digits = next((digits for digits, rows in _PLAIN.items() if rows.fullmatch(block)), None)
        if digits is None or not self._after_header:
            return 0
        rows = block.encode().translate(None, b".\r").decode().removesuffix("\n")
        fields = rows.replace("\n", ",").split(",")
        minutes, end, unit = self._minutes, len("2023-11-16 18:15:46") + digits, 10 ** (9 - digits)
        try:
            instants = [minutes[stamp[:16]] + int(stamp[17:end]) * unit for stamp in fields[::3]]
            del fields[::3]
            counts = _COUNTS.decode(f"[{','.join(fields)}]")
        except (FaultyRow, msgspec.MsgspecError):
            return 0
        start = self._start = instants[0] if self._start is None else self._start
        times = [(instant - start) / _SECOND for instant in instants]
        self.part.add_sessions(times, counts[::2], counts[1::2])
        return len(times)

    def finish(self) -> None:
        """Raise DataError for the bad rows, and where there is no good one."""
        self._faults.raise_any(empty=self._start is None)


class _Minutes(dict[str, int]):
    """Minutes as an Azure CSV writes them, in nanoseconds since 1970. Raises FaultyRow for no date."""

    def __missing__(self, text: str) -> int:
        nanoseconds = self[text] = _minute(text) * _SECOND
        return nanoseconds


def _parse(row: str, minutes: _Minutes) -> tuple[int, int, int]:
    """Nanoseconds since 1970 and the two token counts."""
    match = _ROW.fullmatch(row)
    if match is None:
        raise FaultyRow(_complaint(row))
    minute, second, fraction, sign, zone_hours, zone_minutes, new, out = match.groups()
    nanoseconds = minutes[minute] + int(second + (fraction or "").ljust(9, "0"))
    if sign is not None:
        shift = (int(zone_hours) * 3600 + int(zone_minutes) * 60) * _SECOND
        nanoseconds += shift if sign == "-" else -shift
    return nanoseconds, int(new), int(out)


def _minute(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError as error:
        raise FaultyRow(f"TIMESTAMP {text!r}: {error}") from None


def _complaint(row: str) -> str:
    fields = row.split(",")
    if len(fields) != 3:
        return f"expected 3 fields ({HEADER}), got {len(fields)}"
    for name, field in zip(("ContextTokens", "GeneratedTokens"), fields[1:], strict=True):
        whole_number(name, field)
    return f"TIMESTAMP {fields[0]!r} is not a time such as 2023-11-16 18:15:46.6805900"


def azure_lines(trace: Trace) -> Iterator[str]:
    """The trace as lines of an Azure CSV; its times begin at 2000-01-01, with 100 ns."""
    yield HEADER
    start = datetime(2000, 1, 1, tzinfo=UTC)
    for row, time in enumerate(trace.times or ()):
        ticks = round(time * 1e7)
        stamp = start + timedelta(seconds=ticks // 10**7)
        yield f"{stamp:%Y-%m-%d %H:%M:%S}.{ticks % 10**7:07d},{trace.new[row]:.0f},{trace.out[row]:.0f}"
