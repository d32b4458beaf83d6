"""Studies in one call, as a notebook or a script asks them: `serq.sweep`, `serq.capacity`, `serq.compare`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from serq import api, arguments
from serq.results.groups import By
from serq.studies.axes import Axis, Between, parse_axis
from serq.studies.backend import Backend
from serq.studies.capacity import Capacity, CapacityPlan
from serq.studies.capacity import capacity as search_capacity
from serq.studies.compare import ComparePlan, Comparison
from serq.studies.compare import compare as run_both
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
    known = ("axes", "replications", "out", "jobs", "sets", *api.SETTINGS)
    arguments.only_known("sweep", settings, known)
    axes = arguments.named("axes", axes, '{"rate": [1, 2, 4]}')
    plan = SweepPlan(
        arguments.path("file", file),
        [_axis(name, values) for name, values in axes.items()],
        replications=arguments.whole("replications", replications),
        sets=_texts(sets),
        settings=settings,
    )
    backend = _backend(jobs)
    if out is not None:
        return run_sweep(plan, arguments.path("out", out), backend=backend)
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
    own = ("start", "slos", "lowest", "highest", "replications", "tolerance", "jobs", "sets")
    arguments.only_known("capacity", settings, (*own, *api.SETTINGS))
    plan = CapacityPlan(
        arguments.path("file", file),
        arguments.text("over", over, "rate"),
        arguments.number("start", start),
        slos=arguments.texts("slos", slos, "ttft p99 < 2"),
        lowest=None if lowest is None else arguments.number("lowest", lowest),
        highest=None if highest is None else arguments.number("highest", highest),
        replications=arguments.whole("replications", replications),
        tolerance=arguments.number("tolerance", tolerance),
        sets=_texts(sets),
        settings=settings,
    )
    return search_capacity(plan, backend=_backend(jobs))


def compare(
    a: str | Path,
    b: str | Path | None = None,
    *,
    sets: Mapping[str, float | str] | None = None,
    sets_a: Mapping[str, float | str] | None = None,
    sets_b: Mapping[str, float | str] | None = None,
    slos: Sequence[str] = (),
    replications: int = 5,
    by: By | None = None,
    metric: str = "e2e",
    jobs: int = 1,
    **settings: Any,
) -> Comparison:
    """How program ``b``, or ``a`` with other settings, differs from ``a``: by seed, with 95 % intervals.

    ``sets`` holds for both, ``sets_a`` and ``sets_b`` for one. Printing the answer shows its tables. The
    other arguments are those of :func:`sweep`, and of :class:`serq.studies.compare.ComparePlan`.

    Raises UsageError for a plan that cannot be meant, CompileError, and RunError where a run fails.
    """
    own = ("b", "sets", "sets_a", "sets_b", "slos", "replications", "by", "metric", "jobs")
    arguments.only_known("compare", settings, (*own, *api.SETTINGS))
    plan = ComparePlan(
        arguments.path("a", a),
        None if b is None else arguments.path("b", b),
        _texts(sets),
        _texts(sets_a, "sets_a"),
        _texts(sets_b, "sets_b"),
        slos=arguments.texts("slos", slos, "ttft p99 < 2"),
        replications=arguments.whole("replications", replications),
        by=by,
        metric=arguments.text("metric", metric, "ttft"),
        settings=settings,
    )
    return run_both(plan, backend=_backend(jobs))


def _axis(name: str, values: Values) -> Axis | Between:
    if isinstance(values, str):
        return parse_axis(f"{name}={values}")
    if isinstance(values, Iterable) and not isinstance(values, Mapping):
        listed = [arguments.let(f"axes[{name!r}][{place}]", value) for place, value in enumerate(values)]
        return parse_axis(f"{name}={','.join(map(str, listed))}")
    return parse_axis(f"{name}={arguments.let(f'axes[{name!r}]', values)}")


def _texts(sets: Mapping[str, float | str] | None, name: str = "sets") -> dict[str, str]:
    given = {} if sets is None else arguments.lets(name, sets)
    return {let: str(value) for let, value in given.items()}


def _backend(jobs: int) -> Backend:
    return Backend(jobs=arguments.whole("jobs", jobs))
