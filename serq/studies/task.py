"""One run of a study: a compiled point and a seed go in, figures or the reason of a failure come out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter, process_time

from serq import api
from serq.errors import RunError, SerqError
from serq.ir.nodes import with_settings
from serq.results import Report
from serq.studies.figures import Figure, figures


@dataclass(frozen=True, slots=True)
class Task:
    """Replication ``replication`` of design point ``point``; ``program`` is None if it did not compile."""

    index: int
    point: int
    replication: int
    seed: int
    program: api.Program | None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task gave. ``figures`` are those recorded before a ``failure``, if the run failed.

    ``wall`` and ``cpu`` are seconds spent, kept apart from the figures, which are the same each time.
    """

    index: int
    figures: dict[str, Figure]
    failure: str | None
    wall: float
    cpu: float


def perform(task: Task) -> Outcome:
    """Run a task. A failure of the program is an outcome; it raises only what is a fault of serq itself."""
    wall, cpu = perf_counter(), process_time()
    row: dict[str, Figure] = {}
    failure = task.failure
    if task.program is not None:
        try:
            row = figures(api.run(_seeded(task.program, task.seed)))
        except RunError as error:
            failure = str(error)
            if error.records is not None:
                row = figures(Report(error.records))
        except SerqError as error:
            failure = str(error)
    return Outcome(task.index, row, failure, perf_counter() - wall, process_time() - cpu)


def _seeded(program: api.Program, seed: int) -> api.Program:
    return replace(program, ir=with_settings(program.ir, {"seed": seed}))
