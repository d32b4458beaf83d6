"""Lists of lengths: CSV or JSONL with `input_len`, `output_len` and perhaps `time`, a row a request."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import isfinite
from typing import Annotated, Final, NamedTuple

import msgspec

from serq.runtime.trace.columns import ROWS_A_PART, Trace
from serq.runtime.trace.faults import Faults, FaultyRow, plain_reason, whole_number

_REQUIRED: Final = frozenset({"input_len", "output_len"})
_NAMES: Final = _REQUIRED | {"time"}
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class LengthsRow(NamedTuple):
    """A request: its tokens, and when it was sent (None: the file does not say)."""

    new: float
    out: float
    time: float | None


class _JsonRow(msgspec.Struct, forbid_unknown_fields=True):
    input_len: _Count
    output_len: _Count
    time: float | None = None


_DECODER: Final = msgspec.json.Decoder(_JsonRow)


def is_lengths_header(line: str) -> bool:
    """Whether a line names the columns of a CSV of lengths: both lengths, perhaps `time`, in any order."""
    names = line.strip().split(",")
    return len(set(names)) == len(names) and _REQUIRED <= set(names) <= _NAMES


def lengths_parts(path: str, lines: Iterable[str]) -> Iterator[Trace]:
    """The parts of a file of lengths. Raises DataError at its end, naming every bad row."""
    numbered = enumerate(lines, 1)
    number, first = next(numbered)
    if is_lengths_header(first):
        names = first.strip().split(",")
        return _parts(path, numbered, lambda line: _csv_row(line, names))
    return _parts(path, chain([(number, first)], numbered), _json_row)


def parts_of(rows: Iterable[LengthsRow]) -> Iterator[Trace]:
    """Rows as parts of a trace, a request a session; its times are those after the first row."""
    part: Trace | None = None
    start: float | None = None
    for row in rows:
        if start is None:
            start = row.time
        if part is None:
            part = Trace(format="lengths", times=None if row.time is None else array("d"))
        if row.time is None or start is None:
            part.add_turn(row.new, row.out)
            part.close_session()
        else:
            part.add_session(row.time - start, row.new, row.out)
        if part.turns >= ROWS_A_PART:
            yield part
            part = None
    if part is not None:
        yield part


def _parts(path: str, lines: Iterable[tuple[int, str]], read: Callable[[str], LengthsRow]) -> Iterator[Trace]:
    faults = Faults(path)
    good = 0

    def rows() -> Iterator[LengthsRow]:
        nonlocal good
        timed: bool | None = None
        for number, line in lines:
            if not line.strip():
                continue
            try:
                row = read(line)
                if timed is None:
                    timed = row.time is not None
                elif timed != (row.time is not None):
                    raise FaultyRow("`time` stands in some rows and not in others")
            except FaultyRow as fault:
                faults.add(number, str(fault))
                continue
            good += 1
            yield row

    yield from parts_of(rows())
    faults.raise_any(empty=not good)


def _csv_row(line: str, names: list[str]) -> LengthsRow:
    fields = line.strip().split(",")
    if len(fields) != len(names):
        raise FaultyRow(f"expected {len(names)} fields ({','.join(names)}), got {len(fields)}")
    row = dict(zip(names, fields, strict=True))
    new, out = (whole_number(name, row[name]) for name in ("input_len", "output_len"))
    time = row.get("time")
    if time is not None and not _DECIMAL.fullmatch(time):
        raise FaultyRow(f"time {time!r} is not a number of seconds")
    return LengthsRow(new, out, None if time is None else float(time))


def _json_row(line: str) -> LengthsRow:
    try:
        row = _DECODER.decode(line)
    except msgspec.MsgspecError as error:
        raise FaultyRow(plain_reason(error)) from None
    if row.time is not None and not isfinite(row.time):
        raise FaultyRow("`time`: not a finite number of seconds")
    return LengthsRow(row.input_len, row.output_len, row.time)
