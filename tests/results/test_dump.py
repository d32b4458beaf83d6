"""Samples as CSV files."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path

import pytest

from serq.errors import DataError
from serq.results import Report
from serq.results.dump import file_names
from serq.runtime.records import Series
from tests.results.example import example_records


def test_one_file_an_observation(tmp_path: Path) -> None:
    records = example_records()
    records.series["odd"] = Series(
        "odd", [nan, -inf, 1e22, -0.0], [0.1, 0.25, 3.0, 4.0], [0, 0, 1, 2], [0.5] * 4
    )
    paths = Report(records).dump(tmp_path / "made" / "here")
    assert [path.name for path in paths] == ["ttft.csv", "never.csv", "odd.csv"]
    assert paths[0].read_text() == "time,session,turn,value\n5,0,1,5\n9,1,1,9\n10.25,1,2,1.5\n"
    assert paths[1].read_text() == "time,session,turn,value\n"
    assert paths[2].read_text().splitlines()[1:] == [
        "0.1,0,0.5,nan",
        "0.25,0,0.5,-inf",
        "3,1,0.5,1e+22",
        "4,2,0.5,-0",
    ]


def test_file_names_are_safe_everywhere() -> None:
    assert file_names(["ttft", "TTFT", "Ttft"]) == ["ttft.csv", "TTFT~2.csv", "Ttft~3.csv"]
    assert file_names(["con", "NUL", "über", "a_1"]) == ["_con.csv", "_NUL.csv", "über.csv", "a_1.csv"]
    assert file_names(["../../etc/passwd", "a b", "x\0y", "", ".."]) == [
        *("..%2F..%2Fetc%2Fpasswd.csv", "a%20b.csv", "x%00y.csv", ".csv", "...csv")
    ]
    long = file_names(["x" * 5000, "x" * 5001])
    assert len(set(long)) == 2 and all(len(name.encode()) < 256 for name in long)


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    report = Report(example_records())
    with pytest.raises(DataError, match="file: cannot be made a folder"):
        report.dump(tmp_path / "file")
    with pytest.raises(DataError, match="below: cannot be made a folder"):
        report.dump(tmp_path / "file" / "below")
    (tmp_path / "ttft.csv").mkdir()
    with pytest.raises(DataError, match=r"ttft\.csv: cannot be written \(Is a directory\)"):
        report.dump(tmp_path)
