"""The Azure LLM inference CSV: `TIMESTAMP,ContextTokens,GeneratedTokens`, a row is a session of one turn."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from serq.runtime.trace.columns import ROWS_A_PART, Trace
from serq.runtime.trace.faults import Faults, FaultyRow, whole_number

HEADER: Final = "TIMESTAMP,ContextTokens,GeneratedTokens"

_ROW: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d):([0-5]\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))?"
    r",(\d{1,15}),(\d{1,15})",
    re.ASCII,
)
_SECOND: Final = 10**9


def azure_parts(path: str, lines: Iterable[str]) -> Iterator[Trace]:
    """The parts of an Azure trace. Raises DataError at its end, naming every bad row."""
    part = Trace(format="azure", times=array("d"))
    start: int | None = None
    minutes: dict[str, int] = {}
    faults = Faults(path)
    for number, line in enumerate(lines, 1):
        row = line.strip()
        if number == 1 or not row:
            continue
        try:
            instant, new, out = _parse(row, minutes)
        except FaultyRow as fault:
            faults.add(number, str(fault))
            continue
        if start is None:
            start = instant
        part.add_session((instant - start) / _SECOND, new, out)
        if part.turns >= ROWS_A_PART:
            yield part
            part = Trace(format="azure", times=array("d"))
    faults.raise_any(empty=start is None)
    yield part


def _parse(row: str, minutes: dict[str, int]) -> tuple[int, int, int]:
    """Nanoseconds since 1970 and the two token counts; ``minutes`` remembers the minutes met before."""
    match = _ROW.fullmatch(row)
    if match is None:
        raise FaultyRow(_complaint(row))
    minute, second, fraction, sign, zone_hours, zone_minutes, new, out = match.groups()
    base = minutes.get(minute)
    if base is None:
        base = minutes[minute] = _minute(minute)
    nanoseconds = (base + int(second)) * _SECOND + int((fraction or "").ljust(9, "0"))
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
