"""The session CSV: `session,turn,new,out,think[,forced]`, as lenient as the base language reads it (R-B-080).

serq adds one optional column. Where the header is `session,turn,new,out,think,forced,time`, the first row of
a session ends with the time of its arrival in seconds, and its other rows with an empty field. A file without
that header is read as the base language reads it, which skips every header and knows no seventh field.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, compress, count, repeat
from math import isfinite
from operator import ne
from typing import Any, Final

import msgspec

from serq.errors import DataError
from serq.runtime.trace.blocks import RowReader, parts_in
from serq.runtime.trace.columns import Trace

COLUMNS: Final = ("session", "turn", "new", "out", "think", "forced", "time")
HEADER: Final = ",".join(COLUMNS[:6])
TIMED_HEADER: Final = ",".join(COLUMNS)

_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Unicode calls white space: lines are trimmed of it (`str.strip` would trim four separators more)."""

_FLOAT: Final = r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?:inf|infinity|nan))"
_NUMBER: Final = re.compile(_FLOAT, re.IGNORECASE | re.ASCII)
_ROW: Final = re.compile(
    rf"({_FLOAT}),[^,]*,({_FLOAT}),({_FLOAT}),({_FLOAT})(?:,({_FLOAT}))?", re.IGNORECASE | re.ASCII
)
_TIMED_ROW: Final = re.compile(
    rf"({_FLOAT}),[^,]*,({_FLOAT}),({_FLOAT}),({_FLOAT}),({_FLOAT}),({_FLOAT})?", re.IGNORECASE | re.ASCII
)

_OTHER_FORMATS: Final = (
    "; a trace is a session CSV, an Azure CSV (first line TIMESTAMP,ContextTokens,GeneratedTokens), "
    "Mooncake JSONL, lengths (first line input_len,output_len) or a result of `vllm bench serve`; "
    "`serq trace convert --columns` makes one of a CSV with other columns"
)
_LARGEST_SESSION: Final = 2**64 - 1

_UNTIMED_WIDTHS: Final = (5, 6)
_TIMED_WIDTHS: Final = (7,)
_VALUES: Final = msgspec.json.Decoder(list[float | None])
_LONG_FRACTION: Final = re.compile(r"\.[0-9]{10}")


def session_csv_parts(path: str, blocks: Iterable[str]) -> Iterator[Trace]:
    """The parts of a session CSV, whose text comes in ``blocks`` of whole lines.

    Raises DataError at the first bad line, or for an empty trace.
    """
    return parts_in(SessionReader(path), blocks)


class SessionReader(RowReader):
    """Reads the rows of one file. The last session of its part goes on until a row of another one comes."""

    def __init__(self, path: str) -> None:
        self.part = Trace()
        self._path = path
        self._timed: bool | None = None
        """Whether there is a column `time`; None until the first line that is neither empty nor a comment."""
        self._row = _ROW
        self._start: float | None = None
        """When the first session arrived, as the file says it."""
        self._session: int | None = None
        """The session of the last row."""

    def read_line(self, number: int, line: str) -> None:
        """Read one line. Raises DataError for a bad one."""
        line = line.strip(_WHITE_SPACE)
        if not line or line[0] == "#":
            return
        if self._timed is None:
            self._begin(timed=line == TIMED_HEADER)
        if line.startswith("session"):
            return
        match = self._row.fullmatch(line)
        if match is None:
            hint = "" if self._session is not None else _OTHER_FORMATS
            raise DataError(f"{self._path}:{number}: {_complaint(line, bool(self._timed))}{hint}")
        fields = match.groups()
        session = _session_number(float(fields[0]))
        first = session != self._session
        time = _time(fields[5], f"{self._path}:{number}", first=first) if self._timed else None
        part = self.part
        if first and self._session is not None:
            part.close_session()
        self._session = session
        if time is not None and part.times is not None:
            self._start = time if self._start is None else self._start
            part.times.append(_since(self._start, time))
        part.add_turn(float(fields[1]), float(fields[2]), float(fields[3]), float(fields[4] or 0))

    def _begin(self, *, timed: bool) -> None:
        self._timed = timed
        if timed:
            self._row = _TIMED_ROW
            self.part.times = array("d")

    def read_plain(self, block: str) -> int:
        """Read a block all of whose rows are decimal numbers without signs and exponents."""
        if self._timed is None:
            return 0
        if "\r" in block:
            block = block.replace("\r\n", "\n")
        width = _plain_width(block, _TIMED_WIDTHS if self._timed else _UNTIMED_WIDTHS)
        values = _plain_values(block, timed=self._timed) if width else None
        if values is None:
            return 0
        sessions = values[::width]
        if not (all(map(float.is_integer, sessions)) and max(sessions) < _LARGEST_SESSION):
            return 0
        firsts = list(map(ne, sessions, chain([self._session], sessions)))
        if self._timed and not self._add_times(block, values[6::width], firsts):
            return 0
        self._add_rows(values, width, firsts)
        self._session = int(sessions[-1])
        return len(sessions)

    def _add_times(self, block: str, column: list[float | None], firsts: list[bool]) -> bool:
        """Add the times of rows; False, and nothing is done, unless the ``firsts`` have one and no others."""
        times: list[float] = [time for time in compress(column, firsts) if time is not None]
        if not len(times) == sum(firsts) == len(column) - column.count(None):
            return False
        if times and self._start is None:
            self._start = times[0]
        assert self.part.times is not None
        if self._start == 0 and not _LONG_FRACTION.search(block):
            self.part.times.extend(times)  # rounding to nine digits leaves a number of nine digits as it is
        elif self._start is not None:
            self.part.times.extend([_since(self._start, time) for time in times])
        return True

    def _add_rows(self, values: list[float], width: int, firsts: list[bool]) -> None:
        part = self.part
        begins = list(compress(count(part.turns), firsts))
        part.first_row.extend(begins if self._session is not None else begins[1:])
        part.new.fromlist(values[2::width])
        part.out.fromlist(values[3::width])
        part.think.fromlist(values[4::width])
        part.forced.fromlist(values[5::width] if width > 5 else [0.0] * len(firsts))

    def finish(self) -> None:
        """End the last session. Raises DataError for a file without a row."""
        if self._session is None:
            raise DataError(f"{self._path}: an empty trace: no row `{HEADER}`")
        self.part.close_session()


def _plain_width(block: str, widths: tuple[int, ...]) -> int:
    """The number of fields of every row of ``block``, if it is one of ``widths`` and all the rest is digits
    and points; 0 otherwise.
    """
    between = block.encode().translate(None, b"0123456789.")
    width = between.find(b"\n") + 1
    row = b"," * (width - 1) + b"\n"
    return width if width in widths and between == row * (len(between) // width) else 0


def _plain_values(block: str, *, timed: bool) -> list[Any] | None:
    """All fields of ``block``, row after row, an empty time as None; None where one is no JSON number.

    Digits and a point that are a number in JSON are the same one in :data:`_FLOAT`, which has more.
    """
    rows = block.replace(",\n", ",null\n") if timed else block
    fields = rows.removesuffix("\n").replace("\n", ",")
    try:
        return _VALUES.decode(f"[{fields}]")
    except msgspec.MsgspecError:
        return None


def _since(start: float, time: float) -> float:
    """Seconds from ``start`` to ``time``, without the dust of the subtraction."""
    return round(time - start, 9)


def _session_number(value: float) -> int:
    """The session of a row as an unsigned 64-bit number: truncated, saturating, NaN is 0."""
    if not value > 0:
        return 0
    return int(value) if value < _LARGEST_SESSION else _LARGEST_SESSION


def _time(field: str | None, place: str, *, first: bool) -> float | None:
    """When a session arrives, from its ``first`` row; None from its others, which must not say it."""
    if not first:
        if field is not None:
            raise DataError(f"{place}: only the first row of a session has a time; leave `time` empty here")
        return None
    time = float("nan") if field is None else float(field)
    if not isfinite(time):
        raise DataError(f"{place}: column 7 (time): the first row of a session needs its time in seconds")
    return time


def _complaint(line: str, timed: bool) -> str:
    fields = line.split(",")
    if timed and len(fields) != 7:
        return f"expected 7 fields ({TIMED_HEADER}), got {len(fields)}"
    if not timed and len(fields) not in (5, 6):
        return f"expected 5 or 6 fields (session,turn,new,out,think[,forced]), got {len(fields)}"
    for column, (name, field) in enumerate(zip(COLUMNS, fields, strict=False), 1):
        optional = name == "turn" or (name == "time" and not field)
        if not optional and not _NUMBER.fullmatch(field):
            return f"column {column} ({name}): {field!r} is not a number"
    raise AssertionError(f"the row pattern refuses a row without a fault: {line!r}")


def session_csv_lines(trace: Trace, *, times: bool = True) -> Iterator[str]:
    """The trace as lines of a session CSV, with the `time` column where it has times and ``times`` asks."""
    timed = times and trace.times is not None
    yield TIMED_HEADER if timed else HEADER
    for session in range(trace.sessions):
        first = f",{_number(trace.times[session])}" if timed and trace.times is not None else ""
        ends = chain([first], repeat("," if timed else ""))
        for turn, (row, end) in enumerate(zip(trace.rows(session), ends, strict=False)):
            values = (trace.new[row], trace.out[row], trace.think[row], trace.forced[row])
            yield f"{session},{turn},{','.join(map(_number, values))}{end}"


def _number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
