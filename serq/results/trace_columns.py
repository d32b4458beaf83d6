"""A table of requests whose columns have names of their own, as a trace: which column is what, is said."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final

from serq.errors import DataError, UsageError
from serq.ir.nearest import closest
from serq.runtime.trace import Trace
from serq.runtime.trace.faults import Faults, FaultyRow, whole_number
from serq.runtime.trace.lengths import LengthsRow, parts_of
from serq.source import check_text

UNITS: Final = {"s": 0, "ms": -3, "us": -6, "ns": -9}
"""What a time that is a number counts: the power of ten of a second."""

_REQUIRED: Final = ("input_len", "output_len")
_MEANINGS: Final = (*_REQUIRED, "time")
_DELIMITERS: Final = ",;\t|"


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a table is what: meaning -> heading. ``unit`` is that of times that are numbers."""

    headings: Mapping[str, str]
    unit: str = "s"

    @classmethod
    def parse(cls, text: str, unit: str = "s") -> Columns:
        """`input_len=prompt,output_len=completion,time=arrived`; the time may be left out.

        Raises UsageError for anything else.
        """
        form = "input_len=COLUMN,output_len=COLUMN and perhaps time=COLUMN"
        headings: dict[str, str] = {}
        for part in text.split(","):
            meaning, equals, heading = (piece.strip() for piece in part.partition("="))
            if not (equals and heading):
                raise UsageError(f"{part.strip()!r} names no column: write {form}")
            if meaning not in _MEANINGS:
                near = closest(meaning, _MEANINGS)
                hint = f"did you mean `{near}`?" if near else f"write {form}"
                raise UsageError(f"a trace has no `{meaning}`; {hint}")
            if meaning in headings:
                raise UsageError(f"`{meaning}` is given twice")
            headings[meaning] = heading
        missing = [meaning for meaning in _REQUIRED if meaning not in headings]
        if missing:
            raise UsageError(f"which column is `{missing[0]}`? write {form}")
        return cls(headings, unit)


def read_columns(path: str | Path, columns: Columns) -> Trace:
    """The rows of a CSV as requests, in their order; times are those after the first row.

    Fields stand between `,`, `;`, tabs or `|`. A time is a number, or a date and a time (ISO 8601; without
    a zone all are of the same one). Raises DataError for a file without these columns or with a bad row.
    """
    check_text(path, "trace")
    with open(path, encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        delimiter, places = _places(str(path), header, columns)
        file.seek(0)
        faults = Faults(str(path))
        parts = list(parts_of(_rows(csv.reader(file, delimiter=delimiter), places, columns, faults)))
    faults.raise_any(empty=not parts)
    return Trace.joined(parts)


def _places(path: str, header: str, columns: Columns) -> tuple[str, dict[str, int]]:
    """What stands between the fields, and where each meaning's column is."""
    best: list[str] = []
    for delimiter in _DELIMITERS:
        names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
        if all(heading in names for heading in columns.headings.values()):
            return delimiter, {meaning: names.index(name) for meaning, name in columns.headings.items()}
        best = max(best, names, key=len)
    missing = next(heading for heading in columns.headings.values() if heading not in best)
    near = closest(missing, best)
    known = ", ".join(f"`{name}`" for name in best)
    hint = f"did you mean `{near}`?" if near else f"there are {known}"
    raise DataError(f"{path}:1: no column `{missing}`; {hint}")


def _rows(
    table: Iterator[Sequence[str]], places: Mapping[str, int], columns: Columns, faults: Faults
) -> Iterator[LengthsRow]:
    fields = len(next(table, ()))
    first: Decimal | None = None
    for number, row in enumerate(table, 2):
        if not any(field.strip() for field in row):
            continue
        try:
            if len(row) != fields:
                raise FaultyRow(f"expected {fields} fields, got {len(row)}")
            told = {meaning: row[place].strip() for meaning, place in places.items()}
            new, out = (whole_number(columns.headings[name], told[name]) for name in _REQUIRED)
            time = _seconds(told["time"], columns) if "time" in told else None
            first = time if first is None else first
        except FaultyRow as fault:
            faults.add(number, str(fault))
            continue
        yield LengthsRow(new, out, None if time is None or first is None else float(time - first))


def _seconds(text: str, columns: Columns) -> Decimal:
    """A time, exact: today's seconds since 1970 leave a float no microseconds."""
    try:
        number = Decimal(text).scaleb(UNITS[columns.unit])
    except InvalidOperation:
        return _instant(text, columns.headings["time"])
    if not number.is_finite():
        raise FaultyRow(f"{columns.headings['time']} {text!r} is not finite")
    return number


def _instant(text: str, heading: str) -> Decimal:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise FaultyRow(f"{heading} {text!r} is neither a number nor a time (ISO 8601)") from None
    whole = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return Decimal((whole - _EPOCH) // timedelta(microseconds=1)).scaleb(-6)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
