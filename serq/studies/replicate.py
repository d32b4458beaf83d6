"""`serq run --reps`: one program with several seeds; means with Student intervals over the replications.

Batch means within one run trust that the batches are long; independent runs need no such trust, except that
each must be long against its warm-up (Law, Simulation Modeling, 2015, sections 9.4 and 9.5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from serq import api
from serq.errors import InterruptedRunError, SerqError, UsageError
from serq.ir.nodes import with_settings
from serq.results.groups import By
from serq.results.tables import Table, figure
from serq.results.text import aligned
from serq.studies.backend import Backend
from serq.studies.exactness import EXACT, draws_nothing
from serq.studies.figures import Figure, Path, figure_paths
from serq.studies.replications import Interval, interval


@dataclass(frozen=True)
class Replication:
    """One run: the figures of its report, and its warnings. ``failure``: why it did not come to its end."""

    seed: int
    figures: Mapping[Path, Figure]
    warnings: Sequence[str] = ()
    failure: str | None = None


@dataclass(frozen=True)
class Replications:
    """All runs of a program, in the order of their seeds."""

    program: api.Program
    runs: Sequence[Replication]
    exact: bool = False
    """Whether nothing is drawn: the one run is that of every seed."""

    @property
    def ended(self) -> list[Replication]:
        """The runs that came to their end; only they count."""
        return [run for run in self.runs if run.failure is None]

    @property
    def failed(self) -> list[Replication]:
        """The others."""
        return [run for run in self.runs if run.failure is not None]

    def warnings(self) -> list[str]:
        """What any run warned of, each once."""
        return list(dict.fromkeys(text for run in self.runs for text in run.warnings))

    def paths(self) -> list[Path]:
        """The figures that any run has, in the order of the report."""
        return list(dict.fromkeys(path for run in self.ended for path in run.figures))

    def values(self, path: Path) -> list[Figure]:
        """What every run that ended gave; None: it does not determine the figure."""
        return [run.figures.get(path) for run in self.ended]


def replicate(
    program: api.Program,
    replications: int,
    *,
    engine: api.EngineMode = "auto",
    by: Sequence[By] = (),
    backend: Backend | None = None,
) -> Replications:
    """Run ``program`` with ``replications`` seeds from its own on, ``engine`` as in :func:`serq.run`.

    The figures of requests are also taken ``by`` their class, engine, …. A program that draws nothing runs
    once: every seed gives the same.

    A run that fails is kept with its reason. Raises UsageError for a backend that cannot be had, or fewer
    than two replications.
    """
    if replications < 2:
        raise UsageError(f"{replications} replications: an interval over them takes at least two")
    backend = backend or Backend()
    backend.check()
    first = program.ir.run.seed
    exact = draws_nothing(program)
    seeds = range(first, first + (1 if exact else replications))
    tasks = [(program, seed, engine, tuple(by)) for seed in seeds]
    return Replications(program, sorted(backend.perform(_run, tasks), key=lambda run: run.seed), exact)


def _run(task: tuple[api.Program, int, api.EngineMode, tuple[By, ...]]) -> Replication:
    program, seed, engine, by = task
    try:
        report = api.run(replace(program, ir=with_settings(program.ir, {"seed": seed})), engine=engine)
    except InterruptedRunError:
        raise
    except SerqError as error:
        return Replication(seed, {}, failure=str(error))
    warnings = [warning.render() for warning in report.warnings]
    return Replication(seed, figure_paths(report.to_dict(by)), warnings)


_HEADINGS: Final = {
    "objectives": "objective",
    "goodput": "goodput",
    "observes": "observation",
    "gauges": "gauge",
    "connectors": "connector",
    "stages": "stage",
    "pools": "pool",
    "engines": "engine",
    "money": "money",
    "classes": "requests of",
    "groups": "requests by",
}
_WITHIN_A_RUN: Final = (
    *("ci", "low", "high"),
    *(f"{quantile}_{end}" for quantile in ("p50", "p90", "p99") for end in ("low", "high")),
)
"""Intervals of a single run, which those over the replications replace."""


def replications_text(result: Replications) -> str:
    """One line a figure: its mean over the runs, the interval, the smallest and the largest."""
    return "\n".join(_lines(result))


def _lines(result: Replications) -> Iterator[str]:
    ended = result.ended
    yield _heading(result)
    if not ended:
        return
    paths = [path for path in result.paths() if path[-1] not in _WITHIN_A_RUN]
    tables: list[tuple[str, list[Path]]] = [("run", [path for path in paths if len(path) == 1])]
    tables += [
        (heading, [p for p in paths if p[0] == key and len(p) > 1]) for key, heading in _HEADINGS.items()
    ]
    for heading, mine in tables:
        rows = tuple(_row(result, path) for path in mine if _known(result.values(path)))
        if rows:
            columns = ("value",) if result.exact else ("mean", "± 95 %", "smallest", "largest", "runs")
            yield ""
            yield from aligned(Table((heading, *columns), rows))


def _heading(result: Replications) -> str:
    run = result.program.ir.run
    horizon = "-" if run.horizon is None else figure(run.horizon)
    warmup = f", warm-up {figure(run.warmup)} s" if run.warmup else ""
    failed = f", {len(result.failed)} failed" if result.failed else ""
    if result.exact:
        return f"1 run to {horizon} s{warmup}, seed {result.runs[0].seed}{failed}: {EXACT}"
    return (
        f"{len(result.ended)} runs to {horizon} s{warmup}, "
        f"seeds {result.runs[0].seed} to {result.runs[-1].seed}{failed}: "
        "mean over the runs, half-width of its 95 % interval (Student), smallest and largest"
    )


def _row(result: Replications, path: Path) -> tuple[str, ...]:
    known = _known(result.values(path))
    name = " ".join(path[1:] or path)
    if result.exact:
        return name, figure(known[0])
    mean, half_width = interval(known)
    numbers = (mean, half_width, min(known), max(known))
    return (name, *("-" if n is None else figure(float(n)) for n in numbers), str(len(known)))


def _known(values: Sequence[Figure]) -> list[float]:
    return [float(value) for value in values if value is not None]


def replications_data(result: Replications) -> dict[str, Any]:
    """The same as plain data: every figure by its path, with the values of the runs that ended."""
    return {
        "replications": len(result.runs),
        "exact": result.exact,
        "seeds": [run.seed for run in result.ended],
        "failures": {str(run.seed): run.failure for run in result.failed},
        "figures": {".".join(path): _figure(result.values(path)) for path in result.paths()},
    }


def _figure(values: Sequence[Figure]) -> dict[str, Any]:
    known = _known(values)
    mean, half_width = interval(known) if known else Interval(None, None)
    return {"mean": mean, "ci95": half_width, "values": list(values)}
