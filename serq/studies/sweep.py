"""`serq sweep`: the same program at many settings, several seeds each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from serq import api
from serq.errors import CompileError, UsageError
from serq.results.whole_files import write_whole
from serq.studies.axes import Axis, Between
from serq.studies.backend import Backend
from serq.studies.design import Point, grid, latin_hypercube
from serq.studies.exactness import draws_nothing
from serq.studies.folder import StudyFolder
from serq.studies.sweep_result import SweepResult
from serq.studies.tables import as_csv, point_table, run_table
from serq.studies.task import Outcome, Task, perform

NO_SUCH_LET: Final = "E221"

Watch = Callable[[int, int, int], None]
"""Called with how many runs are done, how many there are in all, and how many failed."""


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep runs: ``file`` at every point of the design, ``replications`` seeds from ``seed`` on.

    A point whose program draws nothing runs with the first of them only: the others would give the same.
    Every point sees the same seeds, and the workload's draws do not depend on the deployment, so points
    differ by their settings and not by luck (common random numbers). ``random_points`` None: the full grid.
    ``settings`` are the run-block arguments of :func:`serq.compile`, ``trace`` included.
    """

    file: Path
    axes: Sequence[Axis | Between]
    replications: int = 1
    random_points: int | None = None
    design_seed: int = 1
    sets: Mapping[str, str] | None = None
    settings: Mapping[str, Any] | None = None

    def points(self) -> list[Point]:
        """The design. Raises UsageError for one that makes no sense."""
        if self.replications < 1:
            raise UsageError(f"{self.replications} replications: there must be at least one")
        both = set(self.sets or {}) & {axis.name for axis in self.axes}
        if both:
            raise UsageError(f"`{min(both)}` is both an axis and a fixed setting")
        if self.random_points is None:
            return grid(self.axes)
        return latin_hypercube(self.axes, self.random_points, self.design_seed)

    def compile(self, point: Point) -> api.Program:
        """The program at one point. Raises CompileError."""
        sets = {**(self.sets or {}), **point.sets}
        return api.compile(self.file, sets=sets, **(self.settings or {}))


def sweep(
    plan: SweepPlan,
    out: str | Path,
    *,
    backend: Backend | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
) -> SweepResult:
    """Run what of the plan is not in the folder ``out`` yet, and write its tables.

    Raises UsageError for a plan or folder that cannot be meant, CompileError where a setting names no `let`
    or no point compiles, DataError for a folder that cannot be written.
    """
    points = plan.points()
    backend = backend or Backend()
    backend.check()
    first = _check_settings(plan, points)
    folder = StudyFolder.open(out, _description(plan, points), overwrite=overwrite)
    _Sweep(plan, points, first.ir.run.seed, folder).run(backend, watch)
    runs = folder.runs()
    names = tuple(axis.name for axis in plan.axes)
    table = point_table(runs)
    exact = plan.replications > 1 and draws_nothing(first) and all(point["runs"] <= 1 for point in table)
    result = SweepResult(run_table(runs), table, names, exact, Path(plan.file).name)
    write_whole(folder.path / "runs.csv", as_csv(result.runs))
    write_whole(folder.path / "points.csv", as_csv(result.points))
    write_whole(folder.path / "failures.csv", as_csv(result.failures))
    return result


class _Sweep:
    """The runs of a sweep that are still to be made."""

    def __init__(self, plan: SweepPlan, points: Sequence[Point], seed: int, folder: StudyFolder) -> None:
        self._plan = plan
        self._points = points
        self._seed = seed
        self._folder = folder
        self._left_out = 0
        """Runs that a point that draws nothing needs no more."""

    def run(self, backend: Backend, watch: Watch | None) -> None:
        """Make them, keep each, and tell how far it is."""
        done = self._folder.done()
        total = len(self._points) * self._plan.replications
        finished, failed = len(done), 0
        if finished == total:
            return
        if watch is not None:
            watch(finished, total, failed)
        for outcome in backend.perform(perform, self._tasks(done)):
            self._keep(outcome)
            finished += 1
            failed += outcome.failure is not None
            if watch is not None:
                watch(finished, total - self._left_out, failed)

    def _tasks(self, done: set[int]) -> Iterator[Task]:
        replications = self._plan.replications
        for point in self._points:
            first = point.index * replications
            missing = [r for r in range(replications) if first + r not in done]
            if not missing:
                continue
            program, failure = self._compiled(point)
            if program is not None and draws_nothing(program):
                needed = missing[:1] if len(missing) == replications else []
                self._left_out += len(missing) - len(needed)
                missing = needed
            for replication in missing:
                index, seed = first + replication, self._seed + replication
                yield Task(index, point.index, replication, seed, program, failure)

    def _compiled(self, point: Point) -> tuple[api.Program | None, str | None]:
        try:
            return self._plan.compile(point), None
        except CompileError as error:
            return None, str(error)

    def _keep(self, outcome: Outcome) -> None:
        point, replication = divmod(outcome.index, self._plan.replications)
        labels = {
            "point": point,
            "replication": replication,
            "seed": self._seed + replication,
            "sets": dict(self._points[point].sets),
        }
        self._folder.keep(outcome, labels)


def _check_settings(plan: SweepPlan, points: Sequence[Point]) -> api.Program:
    """The first point that compiles; raises CompileError where a name is wrong or none compiles."""
    first_error: CompileError | None = None
    for point in points:
        try:
            return plan.compile(point)
        except CompileError as error:
            first_error = first_error or error
            if any(diagnostic.code == NO_SUCH_LET for diagnostic in error.diagnostics):
                break
    assert first_error is not None
    raise first_error


def _description(plan: SweepPlan, points: Sequence[Point]) -> dict[str, Any]:
    """What makes two sweeps the same one: text of the program and of its trace, design, seeds, version."""
    from serq import __version__

    settings = {name: str(value) for name, value in (plan.settings or {}).items() if value is not None}
    return {
        "kind": "sweep",
        "serq": __version__,
        "program": str(plan.file),
        "axes": {axis.name: _axis(axis) for axis in plan.axes},
        "random_points": plan.random_points,
        "design_seed": plan.design_seed if plan.random_points is not None else None,
        "points": len(points),
        "replications": plan.replications,
        "sets": dict(plan.sets or {}),
        "settings": settings,
        "sha256": _digest(plan, points),
    }


def _axis(axis: Axis | Between) -> list[str]:
    return list(axis.values) if isinstance(axis, Axis) else [repr(axis.low), repr(axis.high)]


def _digest(plan: SweepPlan, points: Sequence[Point]) -> str:
    """One digest of the program as it compiles at the first point that does, and of its trace."""
    program = _check_settings(plan, points)
    digest = hashlib.sha256(program.to_json().encode())
    if program.trace_file is not None:
        with open(program.trace_file, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
