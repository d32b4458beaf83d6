"""Mooncake JSONL: one request a line, `timestamp` in milliseconds, and hash ids of 512 prompt tokens each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from math import ceil
from typing import Annotated

import msgspec

from serq.runtime.trace.blocks import RowReader, parts_in
from serq.runtime.trace.columns import TOKENS_PER_HASH, Trace
from serq.runtime.trace.faults import Faults, plain_reason

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
_HashId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    timestamp: float
    input_length: _Count
    output_length: _Count
    hash_ids: list[_HashId]


def mooncake_parts(path: str, blocks: Iterable[str]) -> Iterator[Trace]:
    """The parts of a Mooncake trace, whose text comes in ``blocks`` of whole lines.

    Raises DataError at its end, naming every bad row.
    """
    return parts_in(MooncakeReader(path), blocks)


class MooncakeReader(RowReader):
    """Reads the rows of one file; times are those after its first row."""

    def __init__(self, path: str) -> None:
        self.part = Trace(format="mooncake", times=array("d"), hash_ids=[])
        self._start: float | None = None
        self._decoder = msgspec.json.Decoder(_Row)
        self._faults = Faults(path)

    def read_line(self, number: int, line: str) -> None:
        """Read one line, or note what is wrong with it."""
        if not line.strip():
            return
        try:
            row = self._decoder.decode(line)
        except msgspec.MsgspecError as error:
            self._faults.add(number, plain_reason(error))
            return
        if len(row.hash_ids) != _ids_of(row):
            self._faults.add(number, _wrong_count(row))
            return
        self._add([row])

    def read_plain(self, block: str) -> int:
        """Read a block each of whose lines begins with a brace.

        Rows hold no braces, so each line that begins one ends the one before it, and if there are as many
        rows as lines, each line is one.
        """
        lines = block.count("\n")
        if not (block.startswith("{") and block.count("\n{") == lines - 1):
            return 0
        try:
            rows = self._decoder.decode_lines(block)
        except msgspec.MsgspecError:
            return 0
        if len(rows) != lines or any(len(row.hash_ids) != _ids_of(row) for row in rows):
            return 0
        self._add(rows)
        return lines

    def _add(self, rows: list[_Row]) -> None:
        start = self._start = rows[0].timestamp if self._start is None else self._start
        self.part.add_sessions(
            [(row.timestamp - start) / 1000 for row in rows],
            [row.input_length for row in rows],
            [row.output_length for row in rows],
        )
        assert self.part.hash_ids is not None
        self.part.hash_ids.extend([array("q", row.hash_ids) for row in rows])

    def finish(self) -> None:
        """Raise DataError for the bad rows, and where there is no good one."""
        self._faults.raise_any(empty=self._start is None)


def _ids_of(row: _Row) -> int:
    """How many hash ids a prompt of that length has."""
    return ceil(row.input_length / TOKENS_PER_HASH)


def _wrong_count(row: _Row) -> str:
    expected = _ids_of(row)
    return (
        f"`hash_ids`: {len(row.hash_ids)} ids for {row.input_length} tokens; "
        f"one id stands for {TOKENS_PER_HASH} tokens, so there must be {expected}"
    )


def mooncake_lines(trace: Trace) -> Iterator[str]:
    """The trace as lines of Mooncake JSONL; times are rounded to a microsecond."""
    for row, (time, ids) in enumerate(zip(trace.times or (), trace.hash_ids or (), strict=True)):
        stamp = round(time * 1000, 3)
        record = _Row(
            timestamp=int(stamp) if stamp.is_integer() else stamp,
            input_length=int(trace.new[row]),
            output_length=int(trace.out[row]),
            hash_ids=ids.tolist(),
        )
        yield msgspec.json.encode(record).decode()
