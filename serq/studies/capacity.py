"""`serq capacity`: the highest load at which a deployment keeps its objectives, and what breaks beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import isnan, nan
from pathlib import Path
from typing import Any, Final

from serq import api
from serq.errors import UsageError
from serq.ir.nodes import with_settings
from serq.results.objectives import ObjectiveRow
from serq.results.waiting_reasons import EngineWaiting, engine_waiting
from serq.studies.backend import Backend
from serq.studies.exactness import draws_nothing
from serq.studies.measures import Name, request_measures
from serq.studies.replications import Interval, interval
from serq.studies.search import Bounds, largest


@dataclass(frozen=True)
class CapacityPlan:
    """A program whose `let` ``over`` scales its load, and the objectives (`slo`) that must all be met.

    ``slos`` are added to those of the program, each as it stands between `slo` and `;`. The search begins at
    ``start``, stays within [``lowest``, ``highest``] and ends when its bounds are within ``tolerance`` of
    each other; ``replications`` searches see one seed each.
    """

    file: Path
    over: str
    start: float
    slos: Sequence[str] = ()
    lowest: float | None = None
    highest: float | None = None
    replications: int = 5
    tolerance: float = 0.01
    sets: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise UsageError for a plan that cannot be meant."""
        if self.over in self.sets:
            raise UsageError(f"`{self.over}` is searched over and cannot be set")
        if self.replications < 1:
            raise UsageError(f"{self.replications} replications: there must be at least one")
        if not 0 < self.tolerance < 1:
            raise UsageError(f"a tolerance of {self.tolerance:g}: it must be between 0 and 1")
        if not self.start > 0:
            raise UsageError(f"a search that starts at {self.start:g}: a load is above 0")
        if self.lowest is not None and not 0 < self.lowest <= self.start:
            raise UsageError(
                f"no load below {self.lowest:g}, and a start at {self.start:g}: the lowest load is above 0, "
                "and the search starts at it or above"
            )
        if self.highest is not None and not self.highest >= self.start:
            raise UsageError(
                f"no load above {self.highest:g}, and a start at {self.start:g}: the search starts at the "
                "highest load or below"
            )

    def compile(self, load: float) -> api.Program:
        """The program at one load. Raises CompileError; UsageError where it has no objective."""
        sets = {**self.sets, self.over: repr(load)}
        program = api.compile(self.file, sets=sets, slos=self.slos, **self.settings)
        if not program.ir.objectives:
            raise UsageError(f"{self.file} has no objective: write `slo ttft p99 < 2;`, or give `--slo`")
        return program


@dataclass(frozen=True, slots=True)
class Probe:
    """One run of a search: what its objectives measured, and what requests waited for."""

    load: float
    seed: int
    met: bool | None
    objectives: Sequence[ObjectiveRow]
    waiting: Sequence[EngineWaiting]
    per_second: float | None = None
    """Requests a second that were served in full; None where the program sends none."""
    per_million_output_tokens: float = nan
    """Money; NaN where a device-hour has no price."""


@dataclass(frozen=True)
class Search:
    """The search of one seed."""

    seed: int
    bounds: Bounds
    probes: Sequence[Probe]

    def at(self, load: float) -> Probe:
        """The run at a load that the search tried."""
        return next(probe for probe in self.probes if probe.load == load)


@dataclass(frozen=True)
class Capacity:
    """The answer: one search a seed, and mean and 95 % interval of the loads up to which each held."""

    plan: CapacityPlan
    searches: Sequence[Search]
    exact: bool = False
    """Whether nothing is drawn: one seed was searched, and its answer is that of every seed."""

    def __repr__(self) -> str:
        from serq.studies.capacity_text import capacity_text

        return capacity_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    @property
    def reachable(self) -> bool:
        """Whether every seed held at some load."""
        return all(search.bounds.holds is not None for search in self.searches)

    @property
    def bounded(self) -> bool:
        """Whether every seed broke at some load."""
        return all(search.bounds.breaks is not None for search in self.searches)

    @property
    def load(self) -> Interval:
        """The highest load that holds, over the seeds that found one."""
        found = [search.bounds.holds for search in self.searches if search.bounds.holds is not None]
        return interval(found) if found else Interval(None, None)

    @property
    def per_million_output_tokens(self) -> Interval:
        """Money for a million output tokens at the highest load that holds, over the seeds that have one."""
        held = [s.at(s.bounds.holds) for s in self.searches if s.bounds.holds is not None]
        known = [p.per_million_output_tokens for p in held if not isnan(p.per_million_output_tokens)]
        return interval(known) if known else Interval(None, None)

    def breaking(self) -> list[Probe]:
        """For each seed the run at the lowest load that broke."""
        return [s.at(s.bounds.breaks) for s in self.searches if s.bounds.breaks is not None]

    def nearest(self) -> list[Probe]:
        """For each seed without a load that holds, the run at the lowest load tried."""
        return [s.at(s.bounds.breaks) for s in self.searches if s.bounds.holds is None and s.bounds.breaks]


def capacity(plan: CapacityPlan, *, backend: Backend | None = None) -> Capacity:
    """Search every seed, or one where nothing is drawn.

    Raises UsageError, CompileError, and RunError of a run that fails.
    """
    plan.check()
    backend = backend or Backend()
    backend.check()
    program = plan.compile(plan.start)
    exact = draws_nothing(program)
    seeds = range(program.ir.run.seed, program.ir.run.seed + (1 if exact else plan.replications))
    tasks = [(plan, seed) for seed in seeds]
    searches = sorted(backend.perform(_search, tasks), key=lambda search: search.seed)
    return Capacity(plan, searches, exact)


def nothing_to_vary(file: Path, sets: Mapping[str, str], settings: Mapping[str, Any]) -> UsageError:
    """The error of a search that does not say over what: it names the `let`s. Raises CompileError."""
    lets = api.compile(file, sets=sets, **settings).lets
    known = [f"`{name}` ({value:g})" for name, value in lets.items() if value > 0 and name not in sets]
    if not known:
        return UsageError(
            f"{file} has no `let` above 0 that a search could vary: give its load a name, "
            "`let rate = 8;` and `arrive poisson(rate)`, and ask with `--over rate`"
        )
    return UsageError(f"--over says which `let` scales the load: there are {', '.join(known)}")


def _search(task: tuple[CapacityPlan, int]) -> Search:
    plan, seed = task
    probes: list[Probe] = []

    def holds(load: float) -> bool | None:
        probes.append(probe(plan, load, seed))
        return probes[-1].met

    bounds = largest(holds, plan.start, lowest=plan.lowest, highest=plan.highest, tolerance=plan.tolerance)
    return Search(seed, bounds, probes)


_SERVED: Final = Name("requests", "requests", "per second")


def probe(plan: CapacityPlan, load: float, seed: int) -> Probe:
    """Run the program at one load with one seed."""
    program = plan.compile(load)
    report = api.run(replace(program, ir=with_settings(program.ir, {"seed": seed})))
    rows = report.answers.objectives
    return Probe(
        load=load,
        seed=seed,
        met=_all_met(rows),
        objectives=rows,
        waiting=engine_waiting(report.records),
        per_second=next(
            (measure.value for name, measure in request_measures(report) if name == _SERVED), None
        ),
        per_million_output_tokens=report.money[0].per_million_output_tokens if report.money else nan,
    )


def _all_met(rows: Sequence[ObjectiveRow]) -> bool | None:
    """Whether every objective is met; None where none is missed and one is not decided."""
    met = [row.met for row in rows]
    return False if False in met else None if None in met else True


def broken(probe: Probe) -> list[ObjectiveRow]:
    """The objectives that a run did not meet, the worst first where they can be compared."""
    missed = [row for row in probe.objectives if row.met is False]
    return sorted(missed, key=lambda row: row.within if not isnan(row.within) else 1.0)
