"""The run that a command is about: a program, which is run, or a folder of `serq run --out`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from serq.errors import UsageError

if TYPE_CHECKING:
    from serq.results import Report


def report_of(
    source: Path, sets: Mapping[str, str], settings: Mapping[str, object], *, steps: bool = False
) -> Report:
    """The report of ``source``; a program is run, with ``steps`` as in :func:`serq.run`.

    Raises UsageError for options of a program given with a folder.
    """
    from serq import api

    if not source.is_dir():
        return api.run(api.compile(source, sets=sets, **settings), steps=steps)  # type: ignore[arg-type]
    given = ["set"] if sets else [name for name, value in settings.items() if value is not None]
    if given:
        raise UsageError(f"--{given[0]} changes a program, and {source} is the folder of a run that is over")
    return api.read_run(source)
