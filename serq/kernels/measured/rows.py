"""CSV files of measurements: a header with known columns, then rows; every fault names its line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from serq.errors import DataError
from serq.source import read_text


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file: (line, the fields of ``columns`` in that order). Blank lines are passed over.

    Columns may stand in any order, and others beside them. Raises DataError, with file and line, where the
    file is missing, a column is missing, a row has too few or too many fields, or there is no row.
    """
    lines = read_text(path, "operator table").splitlines()
    reader = csv.reader(lines)
    header = [name.strip() for name in next(reader, [])]
    missing = [name for name in columns if name not in header]
    if missing:
        expected = ",".join(columns)
        raise DataError(f"{path}:1: no column {', '.join(missing)}; expected {expected}")
    order = [header.index(name) for name in columns]
    empty = True
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            expected = f"{len(header)} fields ({','.join(header)})"
            raise DataError(f"{path}:{reader.line_num}: expected {expected}, got {len(row)}")
        empty = False
        yield reader.line_num, [row[index] for index in order]
    if empty:
        raise DataError(f"{path}:{max(len(lines), 1)}: no row of measurements")


def read_number(path: Path, line: int, column: str, text: str, *, negative: bool = False) -> float:
    """A finite number, not below 0 unless ``negative``. Raises DataError with file and line."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (number < 0 and not negative):
        wanted = "a finite number" if negative else "a finite number of at least 0"
        raise DataError(f"{path}:{line}: {column} {text!r} is not {wanted}")
    return number
