"""The session CSV: `session,turn,new,out,think[,forced]`, as lenient as the base language reads it (R-B-080).

serq adds one optional column. Where the header is `session,turn,new,out,think,forced,time`, the first row of
a session ends with the time of its arrival in seconds, and its other rows with an empty field. A file without
that header is read as the base language reads it, which skips every header and knows no seventh field.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from math import isfinite
from typing import Final

from serq.errors import DataError
from serq.runtime.trace.columns import ROWS_A_PART, Trace

COLUMNS: Final = ("session", "turn", "new", "out", "think", "forced", "time")
HEADER: Final = ",".join(COLUMNS[:6])
TIMED_HEADER: Final = ",".join(COLUMNS)

_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Unicode calls white space: lines are trimmed of it (`str.strip` would trim four separators more)."""

_FLOAT: Final = r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?:inf|infinity|nan))"
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


def session_csv_parts(path: str, lines: Iterable[str]) -> Iterator[Trace]:
    """The parts of a session CSV. Raises DataError at the first bad line, or for an empty trace."""
    timed: bool | None = None
    row = _ROW
    part = Trace()
    start: float | None = None
    current: int | None = None
    for number, whole_line in enumerate(lines, 1):
        line = whole_line.strip(_WHITE_SPACE)
        if not line or line[0] == "#":
            continue
        if timed is None:
            timed = line == TIMED_HEADER
            row = _TIMED_ROW if timed else _ROW
            part = _empty_part(timed)
        if line.startswith("session"):
            continue
        match = row.fullmatch(line)
        if match is None:
            hint = "" if current is not None else _OTHER_FORMATS
            raise DataError(f"{path}:{number}: {_complaint(line, timed)}{hint}")
        fields = match.groups()
        session = _session_number(float(fields[0]))
        time = _time(fields[5], f"{path}:{number}", first=session != current) if timed else None
        if session != current and current is not None:
            part.close_session()
            if part.turns >= ROWS_A_PART:
                yield part
                part = _empty_part(timed)
        current = session
        if time is not None and part.times is not None:
            start = time if start is None else start
            part.times.append(round(time - start, 9))
        part.add_turn(float(fields[1]), float(fields[2]), float(fields[3]), float(fields[4] or 0))
    if current is None:
        raise DataError(f"{path}: an empty trace: no row `{HEADER}`")
    part.close_session()
    yield part


def _empty_part(timed: bool) -> Trace:
    return Trace(times=array("d") if timed else None)


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
