"""How far a long run is, on a terminal; in a pipe nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress

    from serq.studies.backend import Backend

_PATIENCE: Final = 0.5
"""Seconds of silence before anything is shown: most runs are over by then."""
_BETWEEN_UPDATES: Final = 0.1


@contextmanager
def showing_progress(horizon: float | None) -> Iterator[Callable[[float, int], None] | None]:
    """Give the callback that shows model time and events; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(horizon)
    try:
        yield bar.update
    finally:
        bar.close()


@contextmanager
def counted(what: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """Give the callback that shows how many of how many are done, and at what it is."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(what, total=None)

        def watch(done: int, total: int, text: str) -> None:
            progress.update(bar, completed=done, total=total, description=f"{what}, {text}" if text else what)

        yield watch


@contextmanager
def watched_backend(jobs: int, what: str) -> Iterator[Backend]:
    """Give a backend of so many processes; on a terminal a bar counts its tasks, which are ``what``."""
    from serq.studies.backend import Backend

    with counted(what) as tell:
        yield Backend(jobs, watch=None if tell is None else lambda done, total: tell(done, total, ""))


class _Bar:
    """A progress bar on stderr that appears late, is redrawn seldom, and leaves no trace."""

    def __init__(self, horizon: float | None) -> None:
        self._horizon = horizon
        self._due = monotonic() + _PATIENCE
        self._progress: Progress | None = None

    def update(self, now: float, events: int) -> None:
        if monotonic() < self._due:
            return
        description = f"{now:,.6g} s of {self._horizon:,.6g} s, {events:,} events"
        if self._progress is None:
            self._progress = self._start(description)
        self._progress.update(
            self._progress.task_ids[0], completed=now, description=description, refresh=True
        )
        self._due = monotonic() + _BETWEEN_UPDATES

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _start(self, description: str) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        progress.add_task(description, total=self._horizon)
        progress.start()
        return progress
