"""Files that are there in whole or not at all, whatever kills the process."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from serq.errors import DataError


def write_whole(path: Path, text: str) -> None:
    """Write a text file under another name, and rename it when it is complete and on the disk.

    Raises DataError where it cannot be written.
    """
    write_file(path, lambda unfinished: unfinished.write_text(text, encoding="utf-8", newline="\n"))


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file under another name; rename it when it is complete and on the disk.

    Raises DataError where it cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        write(unfinished)
        _sync(unfinished)
        os.replace(unfinished, path)
        with suppress(OSError):  # where a folder cannot be opened, its entry is synced with the file
            _sync(path.parent)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None


def _sync(path: Path) -> None:
    """Wait until the disk has what was written to ``path``."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
