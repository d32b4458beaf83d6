"""The library: files that ship with serq, for programs to `use` under names that begin with `serq/`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from serq.errors import DataError
from serq.grammar.link.help import did_you_mean
from serq.source import SourceFile, read_text

_PREFIX: Final = "serq/"
_FOLDER: Final = Path(__file__).parents[2] / "library"


def is_shipped(path: str) -> bool:
    """Whether ``path``, as written behind `use`, can name a file of the library."""
    return path.startswith(_PREFIX)


def shipped(path: str) -> SourceFile:
    """A file of the library, under the path where it is installed. Raises DataError where there is none."""
    names = sorted(f"{_PREFIX}{file.name}" for file in _FOLDER.glob("*.sq"))
    if path not in names:
        hint = did_you_mean(path, names) or f"it has {', '.join(names)}"
        raise DataError(f"program {path}: no such file, here or in the library of serq ({hint})")
    file = _FOLDER / path.removeprefix(_PREFIX)
    return SourceFile(str(file), read_text(file, "library"))
