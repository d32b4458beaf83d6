"""Azure CSV and Mooncake JSONL: what their rows mean, and which rows are refused."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from serq.errors import DataError
from serq.runtime.trace import Trace, read_trace, write_trace
from tests.shared import shared

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
ROWS = ["2023-11-16 23:59:58.5000000,374,44", "2023-11-17 00:00:01.0000001,396,109"]


def read(tmp_path: Path, text: str, name: str = "t") -> Trace:
    (tmp_path / name).write_bytes(text.encode())
    return read_trace(tmp_path / name)


def test_azure_rows(tmp_path: Path) -> None:
    trace = read(tmp_path, AZURE + "\r\n".join(ROWS))
    assert trace.format == "azure"
    assert list(trace.new) == [374, 396] and list(trace.out) == [44, 109]
    assert list(trace.think) == list(trace.forced) == [0, 0]
    assert list(trace.first_row) == [0, 1, 2]
    assert trace.times is not None and list(trace.times) == [0.0, 2.5000001]


def test_azure_times_with_a_zone_and_without_a_fraction(tmp_path: Path) -> None:
    text = (
        AZURE
        + "2024-05-10 00:00:00.009930+00:00,1,1\n2024-05-10 01:00:01+01:00,1,1\n2024-05-10 00:00:02Z,1,1\n"
    )
    trace = read(tmp_path, text)
    assert trace.times is not None and list(trace.times) == [0.0, 0.99007, 1.99007]


def test_azure_rows_keep_the_order_of_the_file(tmp_path: Path) -> None:
    trace = read(tmp_path, AZURE + "\n".join(reversed(ROWS)))
    assert trace.times is not None and list(trace.times) == [0.0, -2.5000001]
    assert list(trace.new) == [396, 374]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2023-11-16 18:15:46.68,374", "expected 3 fields"),
        ("2023-11-16 18:15:46.68,374,44,1", "expected 3 fields .* got 4"),
        ("2023-11-16 18:15:46.68,-374,44", "ContextTokens '-374' is not a whole number"),
        ("2023-11-16 18:15:46.68,374,4.5", "GeneratedTokens '4.5' is not a whole number"),
        ("2023-11-16 18:15:46.68,374,", "GeneratedTokens ''"),
        ("2023-13-16 18:15:46.68,374,44", "TIMESTAMP '2023-13-16 18:15'"),
        ("2023-11-16 18:15:76.68,374,44", "TIMESTAMP '2023-11-16 18:15:76.68' is not a time"),
        ("yesterday,374,44", "TIMESTAMP 'yesterday' is not a time"),
        ("# comment", "expected 3 fields"),
    ],
)
def test_bad_azure_rows(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"t:3: {message}"):
        read(tmp_path, f"{AZURE}{ROWS[0]}\n{row}\n{ROWS[1]}\n")


def test_every_bad_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t:2: .* \(2 more bad rows: line 4, 5\)$") as caught:
        read(tmp_path, f"{AZURE}x\n{ROWS[0]}\ny\nz\n")
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"\(11 more bad rows: line 3, 4, 5, 6, 7, \.\.\.\)$"):
        read(tmp_path, AZURE + "x\n" * 12)


def test_empty_request_traces(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an empty trace"):
        read(tmp_path, AZURE + "\n\n")


def mooncake(timestamp: object, new: object, out: object, ids: object) -> str:
    return f'{{"timestamp": {timestamp}, "input_length": {new}, "output_length": {out}, "hash_ids": {ids}}}'


def test_mooncake_rows(tmp_path: Path) -> None:
    trace = read(
        tmp_path, mooncake(27482, 1025, 5, [46, 47, 8]) + "\n" + mooncake(30482.5, 512, 1, [46]) + "\n\n"
    )
    assert trace.format == "mooncake"
    assert list(trace.new) == [1025, 512] and list(trace.out) == [5, 1]
    assert trace.times is not None and list(trace.times) == [0.0, 3.0005]
    assert trace.hash_ids is not None and [list(ids) for ids in trace.hash_ids] == [[46, 47, 8], [46]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (mooncake(0, 1025, 5, [1, 2]), "`hash_ids`: 2 ids for 1025 tokens; .* must be 3"),
        (mooncake(0, 512, -5, [1]), "`output_length`: expected `int` >= 0"),
        (mooncake(0, '"512"', 5, [1]), "`input_length`: expected `int`, got `str`"),
        (mooncake(0, 512.5, 5, [1]), "`input_length`: expected `int`, got `float`"),
        (mooncake('"x"', 512, 5, [1]), "`timestamp`: expected `float`"),
        (mooncake(0, 512, 5, [99999999999999999999]), "`hash_ids"),
        ('{"timestamp": 0, "input_length": 1}', "missing required field `output_length`"),
        (mooncake(0, 512, 5, [1])[:-1] + ', "session_id": 3}', "unknown field `session_id`"),
        ("{nonsense", "malformed"),
        ("[1, 2]", "[Ee]xpected `object`"),
    ],
)
def test_bad_mooncake_rows(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"(?i)t:2: .*{message}"):
        read(tmp_path, f"{mooncake(0, 512, 5, [1])}\n{row}\n")


@pytest.mark.parametrize("name", ["azure_2023_conv.csv", "azure_2023_code.csv", "mooncake_synthetic.jsonl"])
def test_real_traces_survive_a_round_trip(tmp_path: Path, name: str) -> None:
    trace = read_trace(shared("data", "traces", name))
    again = read(tmp_path, "\n".join(write_trace(trace)))
    assert again == trace


def test_the_azure_conversation_trace_is_read_at_once() -> None:
    path = shared("data", "traces", "azure_2023_conv.csv")
    begin = process_time()
    trace = read_trace(path)
    assert process_time() - begin < 0.3
    assert (trace.sessions, trace.turns) == (19_366, 19_366)
    assert trace.times is not None
    assert (trace.times[1], trace.times[-1]) == (4.314579, 3501.721937)
    assert (trace.new[-1], trace.out[-1]) == (197, 183)


@pytest.mark.parametrize(
    ("text", "format", "message"),
    [
        ("0,0,1,2,0", "azure", "no times"),
        ("session,turn,new,out,think,forced,time\n0,0,1,2,0,0,0\n0,1,1,2,0,0,\n", "azure", "several turns"),
        ("session,turn,new,out,think,forced,time\n0,0,1,2,5,0,0\n", "azure", "think times"),
        ("session,turn,new,out,think,forced,time\n0,0,1.5,2,0,0,0\n", "azure", "not whole"),
        ("session,turn,new,out,think,forced,time\n0,0,inf,2,0,0,0\n", "azure", "not whole"),
        ("session,turn,new,out,think,forced,time\n0,0,1,2,0,0,0\n", "mooncake", "no hash ids"),
    ],
)
def test_formats_that_cannot_hold_a_trace(tmp_path: Path, text: str, format: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        write_trace(read(tmp_path, text), format)  # type: ignore[arg-type]
