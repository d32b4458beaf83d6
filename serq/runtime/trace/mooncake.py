"""Mooncake JSONL: one request a line, `timestamp` in milliseconds, and hash ids of 512 prompt tokens each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from math import ceil
from typing import Annotated

import msgspec

from serq.runtime.trace.columns import ROWS_A_PART, TOKENS_PER_HASH, Trace
from serq.runtime.trace.faults import Faults, plain_reason

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
_HashId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    timestamp: float
    input_length: _Count
    output_length: _Count
    hash_ids: list[_HashId]


def mooncake_parts(path: str, lines: Iterable[str]) -> Iterator[Trace]:
    """The parts of a Mooncake trace. Raises DataError at its end, naming every bad row."""
    part = _empty_part()
    decode = msgspec.json.Decoder(_Row).decode
    start: float | None = None
    faults = Faults(path)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = decode(line)
        except msgspec.MsgspecError as error:
            faults.add(number, plain_reason(error))
            continue
        if len(row.hash_ids) != ceil(row.input_length / TOKENS_PER_HASH):
            faults.add(number, _wrong_count(row))
            continue
        if start is None:
            start = row.timestamp
        part.add_session((row.timestamp - start) / 1000, row.input_length, row.output_length)
        assert part.hash_ids is not None
        part.hash_ids.append(array("q", row.hash_ids))
        if part.turns >= ROWS_A_PART:
            yield part
            part = _empty_part()
    faults.raise_any(empty=start is None)
    yield part


def _empty_part() -> Trace:
    return Trace(format="mooncake", times=array("d"), hash_ids=[])


def _wrong_count(row: _Row) -> str:
    expected = ceil(row.input_length / TOKENS_PER_HASH)
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
