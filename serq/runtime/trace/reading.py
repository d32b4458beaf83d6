"""The first line of a trace file tells its format; a long file is read in parts, while it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from math import inf
from pathlib import Path
from typing import Final

from serq.runtime.trace.azure import HEADER as AZURE_HEADER
from serq.runtime.trace.azure import azure_parts
from serq.runtime.trace.columns import Trace, TraceFormat
from serq.runtime.trace.lengths import is_lengths_header, lengths_parts
from serq.runtime.trace.mooncake import mooncake_parts
from serq.runtime.trace.session_csv import session_csv_parts
from serq.runtime.trace.vllm_bench import is_bench_result, vllm_bench_parts
from serq.source import blocks_in, blocks_of, check_text, lines_in, read_text

_READERS: Final[dict[TraceFormat, Callable[[str, Iterable[str]], Iterator[Trace]]]] = {
    "session": session_csv_parts,
    "azure": azure_parts,
    "mooncake": mooncake_parts,
    "lengths": lambda path, blocks: lengths_parts(path, _lines(blocks)),
    "vllm-bench": lambda path, blocks: vllm_bench_parts(path, _lines(blocks)),
}

ROWS_IN_MEMORY: Final = 100_000
"""Rows up to which a trace is kept in memory: some 50 bytes each, and 8 a hash id."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace too long for memory, all of whose rows have been checked; it is read again when it is used."""

    path: str
    sessions: int
    timed: bool
    """Whether it says when sessions arrive."""
    in_order: bool
    """Whether no session arrives before the one ahead of it in the file."""
    whole: bool = False
    """Whether all tokens are whole numbers of usual size."""

    def parts(self) -> Iterator[Trace]:
        """The trace, a few hundred rows at a time; no session is cut. ``times`` are as in the whole trace."""
        return _parts(self.path, lambda: blocks_of(self.path, "trace"))

    def loaded(self) -> Trace:
        """All of it in memory, for who must see all of it at once."""
        return Trace.joined(self.parts())


def read_trace(path: str | Path) -> Trace:
    """Read a trace file: session CSV (R-B-080), Azure CSV, Mooncake JSONL, lengths, a vLLM-benchmark result.

    A relative path is read from the current directory. Raises DataError, in one line that names the file
    and the row, where the file is missing, not text, empty, or has a bad row.
    """
    return Trace.joined(_parts(str(path), _opener(path)))


def open_trace(path: str | Path, rows_in_memory: int = ROWS_IN_MEMORY) -> Trace | TraceFile:
    """The trace of a file, in memory if it has no more than ``rows_in_memory`` rows.

    Every row is read and checked now. Raises what :func:`read_trace` raises.
    """
    if not Path(path).is_file():  # what is no plain file, a pipe, can be read but once
        return read_trace(path)
    kept: list[Trace] = []
    rows = sessions = 0
    latest, in_order, timed, whole = -inf, True, False, True
    for part in _parts(str(path), _opener(path)):
        rows += part.turns
        sessions += part.sessions
        timed = part.timed
        whole = whole and part.whole
        if part.times:
            in_order = in_order and part.in_order and latest <= part.times[0]
            latest = part.times[-1]
        if rows <= rows_in_memory:
            kept.append(part)
        else:
            kept.clear()
    return Trace.joined(kept) if kept else TraceFile(str(path), sessions, timed, in_order, whole)


def recognise(first_line: str) -> TraceFormat:
    """The format that the first line of a trace announces."""
    first = first_line.strip()
    if first == AZURE_HEADER:
        return "azure"
    if is_lengths_header(first) or (first.startswith("{") and '"input_len"' in first):
        return "lengths"
    if is_bench_result(first):
        return "vllm-bench"
    return "mooncake" if first.startswith("{") else "session"


def _opener(path: str | Path) -> Callable[[], Iterator[str]]:
    """What gives the blocks of a file, known to be text."""
    if not Path(path).is_file():
        text = read_text(path, "trace")
        return lambda: blocks_in(StringIO(text, newline="\n"))
    check_text(path, "trace")
    return lambda: blocks_of(path, "trace")


def _parts(path: str, blocks: Callable[[], Iterator[str]]) -> Iterator[Trace]:
    rest = blocks()
    first, line_feed, others = next(rest, "").partition("\n")
    begin = [block for block in (first + line_feed, others) if block]
    return _READERS[recognise(first)](path, chain(begin, rest))


def _lines(blocks: Iterable[str]) -> Iterator[str]:
    return chain.from_iterable(map(lines_in, blocks))
