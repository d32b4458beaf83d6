"""Fields of JSON objects in measured files, checked; faults name file, line and field."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from serq.errors import DataError
from serq.source import read_text


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The JSON object that a file holds. Raises DataError with file, line and column."""
    return parse_object(read_text(path, what), str(path))


def parse_object(text: str, place: str, line: int | None = None) -> dict[str, Any]:
    """The JSON object in ``text``. ``line``: the text is this line of ``place``."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        row, column = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (1, 1)
        raise DataError(f"{place}:{line or row}:{column}: is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise DataError(f"{place}:{line or 1}: is not a JSON object")
    return value


def number(entry: dict[str, Any], name: str, place: str) -> float:
    """A finite number. Raises DataError."""
    value = entry.get(name)
    if name not in entry:
        raise DataError(f"{place}: no `{name}`")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{place}: `{name}` is {value!r}, not a finite number")
    return float(value)


def count(entry: dict[str, Any], name: str, place: str) -> int:
    """A whole number above 0. Raises DataError."""
    value = number(entry, name, place)
    if value < 1 or value != int(value):
        raise DataError(f"{place}: `{name}` is {entry[name]!r}, not a whole number above 0")
    return int(value)


def dig(entry: Any, *names: str) -> Any:
    """What stands under a path of names; None where it breaks off."""
    for name in names:
        if not isinstance(entry, dict):
            return None
        entry = entry.get(name)
    return entry
