"""Traces of a row a line, read block by block: at once where a block is plain, else line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from serq.runtime.trace.columns import ROWS_A_PART, Trace
from serq.source import lines_in


class RowReader(Protocol):
    """What reads the rows of one format. Its rules are those of ``read_line``; ``read_plain`` is fast."""

    part: Trace
    """The rows read, less those of the parts that were split off."""

    def read_plain(self, block: str) -> int:
        """Read all lines of ``block``, which ends in a line feed, as ``read_line`` would; how many there are.

        All are good rows. 0: not all of them are known to be, and nothing has been read.
        """

    def read_line(self, number: int, line: str) -> None:
        """Read one line, number ``number`` of the file (from 1). Raises or notes what is wrong with it."""

    def finish(self) -> None:
        """Complete the last part: there are no more lines. Raises DataError for what is wrong."""


def parts_in(reader: RowReader, blocks: Iterable[str]) -> Iterator[Trace]:
    """The parts of a trace whose text comes in ``blocks`` of whole lines. No session is cut.

    Raises DataError as ``reader`` does.
    """
    lines = 0
    for block in blocks:
        plain = reader.read_plain(block) if block.endswith("\n") else 0
        lines += plain
        if not plain:
            for line in lines_in(block):
                lines += 1
                reader.read_line(lines, line)
        if reader.part.first_row[-1] >= ROWS_A_PART:
            part = reader.part
            reader.part = part.split()
            yield part
    reader.finish()
    yield reader.part
