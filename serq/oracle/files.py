"""Oracle files: ``{"scenario", "trace"}`` as JSON, gzipped or not."""

from __future__ import annotations

import gzip
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
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not JSON: {error}") from error


def read_oracle(path: Path) -> tuple[Any, dict[str, Any]]:
    """(scenario, trace) of an oracle file, decoded. Raises DataError if it is none."""
    data = read_json(path)
    if not isinstance(data, dict) or "scenario" not in data or not isinstance(data.get("trace"), dict):
        raise DataError(f"{path}: not an oracle file: it needs 'scenario' and 'trace'")
    return data["scenario"], data["trace"]


def read_scenario(path: Path) -> Any:
    """The decoded scenario of an oracle file, or of a file that holds just a scenario."""
    data = read_json(path)
    return data["scenario"] if isinstance(data, dict) and "scenario" in data else data


def read_trace(path: Path) -> dict[str, Any]:
    """The trace of an oracle file, or of a file that holds just a trace. Raises DataError if it has none."""
    data = read_json(path)
    trace = data.get("trace", data) if isinstance(data, dict) else None
    if not isinstance(trace, dict) or "steps" not in trace:
        raise DataError(f"{path}: holds no trace")
    return trace
