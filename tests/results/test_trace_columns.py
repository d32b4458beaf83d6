"""Tables of requests with columns of their own: what becomes of each row, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.errors import DataError, UsageError
from serq.results.trace_columns import Columns, read_columns
from serq.runtime.trace import Trace

NAMES = "input_len=in,output_len=out,time=at"


def read(folder: Path, text: str, columns: str = NAMES, unit: str = "s") -> Trace:
    (folder / "table.csv").write_text(text, "utf-8")
    return read_columns(folder / "table.csv", Columns.parse(columns, unit))


@pytest.mark.parametrize(
    ("text", "unit", "times"),
    [
        ("out,at,in\n1,5,10\n2,7.25,20\n", "s", [0, 2.25]),
        ("out,at,in\n1,1700000000000,10\n2,1700000000001,20\n", "ms", [0, 0.001]),
        ("out,at,in\n1,1.7e18,10\n2,1700000000000000001,20\n", "ns", [0, 1e-9]),
        ("at;in;out\n2024-02-28T23:59:59.5Z;10;1\n2024-02-29T00:00:00.500001Z;20;2\n", "s", [0, 1.000001]),
        ("at\tin\tout\n2024-01-01 01:00:00+01:00\t10\t1\n2024-01-01T00:00:01Z\t20\t2\n", "s", [0, 1]),
        ('who|at|in|out\n"a|b"|3|10|1\nc|2|20|2\n', "s", [0, -1]),
        ("\ufeffat, in ,out,more\n0,10,1,\n\n1,20,2,x\n", "s", [0, 1]),
    ],
)
def test_rows(tmp_path: Path, text: str, unit: str, times: list[float]) -> None:
    trace = read(tmp_path, text, unit=unit)
    assert (list(trace.new), list(trace.out)) == ([10, 20], [1, 2])
    assert trace.times is not None and list(trace.times) == times


def test_without_a_time(tmp_path: Path) -> None:
    trace = read(tmp_path, "out,in\n1,10\n", "output_len=out,input_len=in")
    assert trace.times is None and trace.sessions == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("out,at,inn\n", r"table\.csv:1: no column `in`; did you mean `inn`\?"),
        ("a;b;c\n", r"table\.csv:1: no column `in`; there are `a`, `b`, `c`"),
        ("in,out,at\n", "an empty trace"),
        ("in,out,at\n1,2\n", r"table\.csv:2: expected 3 fields, got 2"),
        (
            "in,out,at\n1.5,2,0\n1,x,0\n",
            r"table\.csv:2: in '1\.5' is not a whole .* \(1 more bad row: line 3\)",
        ),
        ("in,out,at\n1,2,noon\n", r"table\.csv:2: at 'noon' is neither a number nor a time"),
        ("in,out,at\n1,2,inf\n", r"table\.csv:2: at 'inf' is not finite"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("input_len", "'input_len' names no column: write input_len=COLUMN,output_len=COLUMN"),
        ("input=a,output_len=b", "a trace has no `input`; did you mean `input_len`"),
        ("input_len=a,input_len=b", "`input_len` is given twice"),
        ("input_len=a", "which column is `output_len`"),
    ],
)
def test_columns_that_cannot_be_meant(columns: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Columns.parse(columns)
