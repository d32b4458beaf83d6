"""Studies in one call, as a notebook or a script asks them: `serq.sweep`, `serq.capacity`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from serq.studies.axes import Axis, Between, parse_axis
from serq.studies.backend import Backend
from serq.studies.capacity import Capacity, CapacityPlan
from serq.studies.capacity import capacity as search_capacity
from serq.studies.sweep import SweepPlan
from serq.studies.sweep import sweep as run_sweep
from serq.studies.sweep_result import SweepResult

Values = str | float | Sequence[float | str]
"""The values of a `let`: some, one, or a range as `serq sweep --set` takes it."""


def sweep(
    file: str | Path,
    axes: Mapping[str, Values],
    *,
    replications: int = 1,
    out: str | Path | None = None,
    jobs: int = 1,
    sets: Mapping[str, float | str] | None = None,
    **settings: Any,
) -> SweepResult:
    """Run a program at every combination of values, with the same seeds at each.

    ``axes`` maps a `let` to its values: ``{"rate": [1, 2, 4]}``, or a range such as ``"6:16:2"``. ``out`` is
    the folder of the study, which goes on where it was stopped; without one nothing is kept. ``jobs``
    processes run it (-1: one a core). ``sets`` are fixed; ``settings`` are the run-block arguments of
    :func:`serq.compile`.

    Raises UsageError for a plan that cannot be meant, CompileError where no point compiles.
    """
    plan = SweepPlan(
        Path(file),
        [_axis(name, values) for name, values in axes.items()],
        replications=replications,
        sets=_texts(sets),
        settings=settings,
    )
    backend = Backend(jobs=jobs)
    if out is not None:
        return run_sweep(plan, out, backend=backend)
    with TemporaryDirectory(prefix="serq-") as folder:
        return run_sweep(plan, folder, backend=backend)


def capacity(
    file: str | Path,
    over: str,
    *,
    start: float = 1.0,
    slos: Sequence[str] = (),
    lowest: float | None = None,
    highest: float | None = None,
    replications: int = 5,
    tolerance: float = 0.01,
    jobs: int = 1,
    sets: Mapping[str, float | str] | None = None,
    **settings: Any,
) -> Capacity:
    """The highest value of the `let` ``over`` at which a program keeps its objectives, and what breaks then.

    ``slos`` are added to those of the program, such as ``"ttft p99 < 2"``; the search begins at ``start``.
    Printing the answer says it in words. The other arguments are those of :func:`sweep`, and of
    :class:`serq.studies.capacity.CapacityPlan`.

    Raises UsageError for a plan that cannot be meant, CompileError, and RunError of a run that fails.
    """
    plan = CapacityPlan(
        Path(file),
        over,
        start,
        slos=slos,
        lowest=lowest,
        highest=highest,
        replications=replications,
        tolerance=tolerance,
        sets=_texts(sets),
        settings=settings,
    )
    return search_capacity(plan, backend=Backend(jobs=jobs))


def _axis(name: str, values: Values) -> Axis | Between:
    if isinstance(values, str | int | float):
        return parse_axis(f"{name}={values}")
    return parse_axis(f"{name}={','.join(map(str, values))}")


def _texts(sets: Mapping[str, float | str] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (sets or {}).items()}
