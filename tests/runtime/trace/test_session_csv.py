"""The session CSV is read as the base language reads it (R-B-080).

What each text must give was recorded from the reference implementation's `read_trace`.
"""

from __future__ import annotations

from math import inf, nan
from pathlib import Path

import pytest

from serq.errors import DataError
from serq.runtime.trace import Trace, read_trace, write_trace


def sessions(trace: Trace) -> list[list[tuple[float, float, float, float]]]:
    columns = list(zip(trace.new, trace.out, trace.think, trace.forced, strict=True))
    return [[columns[row] for row in trace.rows(i)] for i in range(trace.sessions)]


def read(tmp_path: Path, text: str | bytes) -> Trace:
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_trace(path)


ROW = (3.0, 4.0, 5.0, 0.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("session,turn,new,out,think\n0,1,3,4,5\n", [[ROW]]),
        ("0,1,3,4,5", [[ROW]]),
        ("0,1,3,4,5,6", [[(3.0, 4.0, 5.0, 6.0)]]),
        ("0,,3,4,5", [[ROW]]),
        ("0,any text,3,4,5", [[ROW]]),
        ("  0,1,3,4,5  \r\n\t1,1,3,4,5\r\n", [[ROW], [ROW]]),
        (" session,turn\n0,1,3,4,5", [[ROW]]),
        ("sessions!\n0,1,3,4,5", [[ROW]]),
        ("0,1,3,4,5\nsession_id 5\n", [[ROW]]),
        (" # c\n0,1,3,4,5\n\n", [[ROW]]),
        ("0,1,3,4,5\u2028", [[ROW]]),
        ("\u00a00,1,3,4,5\x0c", [[ROW]]),
        ("\x0b0,1,3,4,5", [[ROW]]),
        ("0,1,3,4,5\n1,1,3,4,5\n0,1,3,4,5\n", [[ROW], [ROW], [ROW]]),
        ("0.5,1,3,4,5\n0.7,1,3,4,5", [[ROW, ROW]]),
        ("-1,1,3,4,5\n-7.5,1,3,4,5\nnan,1,3,4,5\n0,1,3,4,5", [[ROW, ROW, ROW, ROW]]),
        ("inf,1,3,4,5\n1e30,1,3,4,5\n18446744073709551616,1,3,4,5\n0,1,3,4,5", [[ROW, ROW, ROW], [ROW]]),
    ],
)
def test_accepted(tmp_path: Path, text: str, expected: list[list[tuple[float, ...]]]) -> None:
    trace = read(tmp_path, text)
    assert sessions(trace) == expected
    assert trace.format == "session" and trace.times is None and trace.hash_ids is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("inf", inf), ("+inf", inf), ("-inf", -inf), ("Infinity", inf), ("INF", inf), ("1e400", inf)),
        *(("1e99999999999999999999", inf), ("1e-400", 0.0), ("-0", 0.0), ("+5", 5.0), (".5", 0.5)),
        *(("5.", 5.0), ("1e3", 1000.0), ("1E3", 1000.0), ("1e+5", 1e5), ("1.e2", 100.0)),
    ],
)
def test_numbers_accepted(tmp_path: Path, field: str, value: float) -> None:
    assert read(tmp_path, f"0,1,{field},4,5").new[0] == value


@pytest.mark.parametrize("field", ["nan", "NaN", "-nan", "+nan", "NAN"])
def test_not_a_number_is_accepted(tmp_path: Path, field: str) -> None:
    assert list(map(str, read(tmp_path, f"0,1,{field},4,5").new)) == [str(nan)]


@pytest.mark.parametrize(
    "field",
    [
        *("1_0", "0x10", " 5", "5 ", "5\t", "5\x0b", "\u0661", "\uff11", "1f", "1d5", "x", '"5"', ""),
        *("e5", ".e2", "1e", "0.1e", "1e1.5", ".", "+", "-", "--5", "infi", "\u0131nf", "nan(1)"),
    ],
)
def test_numbers_refused(tmp_path: Path, field: str) -> None:
    with pytest.raises(DataError, match=r"t\.csv:2: column 3 \(new\)"):
        read(tmp_path, f"0,1,2,4,5\n0,1,{field},4,5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1,3,4,5,6,7", r"t\.csv:1: expected 5 or 6 fields .* got 7"),
        ("0,1,3,4", r"t\.csv:1: expected 5 or 6 fields .* got 4"),
        ("Session,turn\n0,1,3,4,5", r"t\.csv:1: expected 5 or 6 fields .* got 2"),
        ("0,1,3,4,5,", r"t\.csv:1: column 6 \(forced\): ''"),
        (",1,3,4,5", r"column 1 \(session\)"),
        ("0,1,3,4,5\rx", r"column 5 \(think\)"),
        ("0,1,3,4,5\n\x1c\n", r"t\.csv:2: expected 5 or 6 fields"),
        ("", "empty trace"),
        ("\n\n#x\nsession\n", "empty trace"),
        (b"0,\xff,3,4,5", "not UTF-8 text"),
        (b"\x7fELF\x00\x01", "binary"),
    ],
)
def test_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(DataError, match="is a directory"):
        read_trace(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert sessions(read(tmp_path, "\ufeffsession,turn\n0,1,3,4,5")) == [[ROW]]


TIMED = """session,turn,new,out,think,forced,time
4,0,10,1,0.5,0,100.5
4,1,20,2,0,0,
# comment
9,0,30,3,0,7,101.25
"""


def test_the_time_column(tmp_path: Path) -> None:
    trace = read(tmp_path, TIMED)
    assert sessions(trace) == [[(10, 1, 0.5, 0), (20, 2, 0, 0)], [(30, 3, 0, 7)]]
    assert trace.times is not None and list(trace.times) == [0.0, 0.75]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0,100.5", "0,", r"t\.csv:2: column 7 \(time\): the first row"),
        ("0,100.5", "0,inf", r"t\.csv:2: column 7 \(time\): the first row"),
        ("0,100.5", "0,x", r"t\.csv:2: column 7 \(time\): 'x' is not a number"),
        ("2,0,0,", "2,0,0,3", r"t\.csv:3: only the first row"),
        ("2,0,0,", "2,0,0", r"t\.csv:3: expected 7 fields"),
    ],
)
def test_broken_time_columns(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, TIMED.replace(old, new))


def test_written_and_read_again(tmp_path: Path) -> None:
    trace = read(tmp_path, TIMED + "10,0,1e20,0.1,inf,0,102\n")
    text = "\n".join(write_trace(trace))
    assert text.splitlines()[1:3] == ["0,0,10,1,0.5,0,0", "0,1,20,2,0,0,"]
    again = read(tmp_path, text)
    assert again == trace
    without = "\n".join(write_trace(trace, times=False))
    assert without.startswith("session,turn,new,out,think,forced\n")
    assert sessions(read(tmp_path, without)) == sessions(trace)
