"""Which kind of measured run a path is."""

from __future__ import annotations

from pathlib import Path

from serq.errors import DataError
from serq.validation.bench_result import read_bench_result
from serq.validation.engine_record import read_engine_record
from serq.validation.measured_run import MeasuredRun


def read_run(path: Path) -> MeasuredRun:
    """Read a folder with `requests.jsonl`, that file itself, or a result of `vllm bench serve`.

    Raises DataError where nothing is there, or where it is none of these.
    """
    if path.is_dir():
        if (path / "requests.jsonl").exists():
            return read_engine_record(path)
        if (path / "run" / "requests.jsonl").exists():
            return read_engine_record(path / "run")
        raise DataError(f"measured run {path}: no requests.jsonl in this folder")
    if path.name == "requests.jsonl" and path.exists():
        return read_engine_record(path.parent)
    return read_bench_result(path)
