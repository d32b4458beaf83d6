"""A trace too long for memory is replayed from its file, as one in memory would be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

import serq
from serq.runtime.records import Series
from serq.runtime.simulation import simulate
from serq.runtime.trace import Trace, TraceFile, open_trace, read_trace
from serq.runtime.trace.columns import ROWS_A_PART

ROWS = 3 * ROWS_A_PART + 7


def azure(rows: int) -> Iterator[str]:
    yield "TIMESTAMP,ContextTokens,GeneratedTokens"
    for i in range(rows):
        second, tick = divmod(i, 20)
        stamp = f"2023-11-16 {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{tick * 5:02d}"
        yield f"{stamp},{100 + i % 700},{1 + i % 13}"


def mooncake(rows: int) -> Iterator[str]:
    for i in range(rows):
        ids = list(range(i, i + 1 + i % 3))
        yield json.dumps(
            {"timestamp": 50.5 * i, "input_length": 512 * len(ids), "output_length": 2, "hash_ids": ids}
        )


def session_csv(rows: int, *, times: bool = True) -> Iterator[str]:
    """Sessions of one, two, three rows, in turn."""
    yield "session,turn,new,out,think,forced" + (",time" if times else "")
    row = session = 0
    while row < rows:
        for turn in range(1 + session % 3):
            time = "," + (str(session * 0.25) if turn == 0 else "") if times else ""
            yield f"{session},{turn},{row},{1 + row % 7},{0.5 * turn},0{time}"
            row += 1
        session += 1


FORMATS = {
    "azure": azure,
    "mooncake": mooncake,
    "session": session_csv,
    "untimed": lambda rows: session_csv(rows, times=False),
}


def written(tmp_path: Path, lines: Iterator[str]) -> Path:
    path = tmp_path / "trace"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_in_parts_is_the_whole_trace(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, FORMATS[name](ROWS))
    whole, in_file = read_trace(path), open_trace(path, rows_in_memory=ROWS_A_PART)
    assert isinstance(in_file, TraceFile)
    assert open_trace(path, rows_in_memory=ROWS + 10) == whole
    assert (in_file.sessions, in_file.timed, in_file.in_order) == (whole.sessions, whole.timed, True)
    parts = list(in_file.parts())
    assert len(parts) >= 3 and all(part.turns < 2 * ROWS_A_PART for part in parts)
    assert in_file.loaded() == whole
    assert [t for part in parts for t in part.times or ()] == list(whole.times or ())


REPLAY = """
stage d : delay;
workload {{ arrive {arrive}; trace "unused" {order}; }}
session {{
  loop {{ turn; observe x = new; observe y = out; branch (more) {{ run d (think); }} else {{ end; }} }}
}}
run {{ horizon 2000; }}
"""


def series(arrive: str, order: str, trace: Trace | TraceFile) -> list[tuple[Any, ...]]:
    program = serq.compile(source=REPLAY.format(arrive=arrive, order=order))
    found: list[Series] = list(simulate(program.ir, trace=trace).series.values())
    assert found[0].values
    return [astuple(each) for each in found]


@pytest.mark.parametrize(
    ("name", "arrive", "order"),
    [
        *(
            (name, "trace (1)", order)
            for name in ("azure", "mooncake", "session")
            for order in ("", "ordered")
        ),
        ("session", "trace (3)", ""),
        ("session", f"batch({2 * ROWS})", "ordered"),  # goes round the file
        ("untimed", "batch(50)", ""),  # draws from all of it
        ("untimed", "renewal(1)", "ordered"),
    ],
)
def test_a_replay_from_the_file_is_that_from_memory(
    tmp_path: Path, name: str, arrive: str, order: str
) -> None:
    path = written(tmp_path, FORMATS[name](ROWS))
    in_file = open_trace(path, rows_in_memory=ROWS_A_PART)
    assert isinstance(in_file, TraceFile)
    assert series(arrive, order, in_file) == series(arrive, order, read_trace(path))


@pytest.mark.parametrize("late", [1, ROWS_A_PART, ROWS // 2])
def test_times_that_run_backwards(tmp_path: Path, late: int) -> None:
    """Arrivals follow the times, wherever in the file they go back, also between two parts."""
    header, *rows = azure(ROWS)
    rows[late - 1 : late + 1] = rows[late - 1 : late + 1][::-1]
    path = written(tmp_path, iter([header, *rows]))
    in_file = open_trace(path, rows_in_memory=ROWS_A_PART)
    assert isinstance(in_file, TraceFile) and not in_file.in_order
    found = series("trace (1)", "", in_file)
    assert found == series("trace (1)", "", read_trace(path))
    assert list(found[0][1]) == [100 + i % 700 for i in range(ROWS)]


def test_a_bad_row_at_the_end_is_told_before_the_run(tmp_path: Path) -> None:
    path = written(tmp_path, iter([*azure(ROWS), "x,1,2"]))
    with pytest.raises(serq.DataError, match=rf"trace:{ROWS + 2}: TIMESTAMP 'x' is not a time"):
        open_trace(path, rows_in_memory=10)


MEASURE = """
import resource, sys
from serq.cli import main
try:
    main(["run", *sys.argv[1:]])
except SystemExit:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units elsewhere")
def test_two_hundred_thousand_rows_need_no_more_memory_than_a_hundred_thousand(tmp_path: Path) -> None:
    """In memory each row would take 48 bytes, and a session in the agenda 100 more: 15 MB in all."""
    program = tmp_path / "replay.sq"
    program.write_text(
        'stage d : delay;\nworkload { arrive trace (1); trace "trace"; }\nsession { turn; run d (out); }\n'
        "run { horizon 1e6; }\n"
    )

    def peak(rows: int) -> float:
        written(tmp_path, azure(rows))
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(program)], capture_output=True, text=True, check=True
        )
        report, megabytes = done.stdout, done.stdout.splitlines()[-1]
        assert f"{rows} arrivals, {rows} ended" in report
        return float(megabytes)

    assert peak(200_000) - peak(100_001) < 3.0
