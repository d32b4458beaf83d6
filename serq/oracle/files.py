"""Oracle files: ``{"scenario", "trace"}`` as JSON, gzipped or not."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from serq.errors import DataError

_SUFFIXES = (".json", ".json.gz")


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files named, and those below the folders named, in order. Raises DataError if there are none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = sorted(file for file in path.rglob("*") if file.name.endswith(_SUFFIXES))
            if not below:
                raise DataError(f"{path}: no .json or .json.gz file in this folder")
            found += below
        elif path.exists():
            found.append(path)
        else:
            raise DataError(f"{path}: no such file or folder")
    return found


def read_json(path: Path) -> Any:
    """What the JSON file ``path`` holds, decompressed if need be. Raises DataError if it holds none."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return msgspec.json.decode(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from error


def scenario_in(data: Any) -> Any:
    """The scenario of decoded oracle data, or ``data`` itself where it holds just a scenario."""
    return data["scenario"] if isinstance(data, dict) and "scenario" in data else data


def trace_in(data: Any) -> dict[str, Any] | None:
    """The trace of decoded oracle data, or ``data`` itself where it is one; None if there is none."""
    trace = data.get("trace") if isinstance(data, dict) and "steps" not in data else data
    if isinstance(trace, dict) and _is_trace(trace):
        return trace
    return None


def _is_trace(trace: dict[str, Any]) -> bool:
    steps, requests = trace.get("steps"), trace.get("requests")
    return (
        isinstance(steps, list)
        and all(isinstance(step, list if "columns" in trace else dict) for step in steps)
        and isinstance(requests, list)
        and all(isinstance(request, dict) for request in requests)
    )


def read_oracle(path: Path) -> tuple[Any, dict[str, Any]]:
    """(scenario, trace) of an oracle file, decoded. Raises DataError if it is none."""
    data = read_json(path)
    trace = trace_in(data) if isinstance(data, dict) and "scenario" in data else None
    if trace is None:
        raise DataError(f"{path}: not an oracle file: needs a scenario, and a trace with steps and requests")
    return data["scenario"], trace


def read_scenario(path: Path) -> Any:
    """The decoded scenario of an oracle file, or of a file that holds just a scenario."""
    return scenario_in(read_json(path))


def read_trace(path: Path) -> dict[str, Any]:
    """The trace of an oracle file, or of a file that holds just a trace. Raises DataError if it has none."""
    trace = trace_in(read_json(path))
    if trace is None:
        raise DataError(f"{path}: holds no trace with steps and requests")
    return trace


def write_oracle(path: Path, scenario: Any, trace: dict[str, Any]) -> None:
    """Write an oracle file, gzipped if its name ends in ``.gz``. Raises DataError if that cannot be."""
    write_json(path, {"scenario": scenario, "trace": trace})


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as JSON, gzipped if the name ends in ``.gz``. Raises DataError if that cannot be."""
    data = (json.dumps(content, separators=(",", ":")) + "\n").encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, 9, mtime=0)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error}") from error
