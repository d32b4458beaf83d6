"""`serq compare`: two programs, the same clients; what is different, how surely, and for whom.

Both run with the same seeds, and draws are keyed by where they stand (common random numbers), so the
differences are paired by seed: their mean has a Student interval over the seeds (Law, Simulation Modeling,
2015, section 10.2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from html import escape
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any, Final

from serq import api
from serq.errors import RunError, UsageError
from serq.ir.nodes import Request, Vllm, with_settings
from serq.ir.walk import descendants
from serq.results import Report
from serq.results.groups import By
from serq.results.statistics import mean
from serq.studies.backend import Backend
from serq.studies.matching import SAMPLE, Matched, Moved, match, units
from serq.studies.measures import LATENCIES, Better, Measure, Name, measures
from serq.studies.replications import Interval, interval

SIDES: Final = ("A", "B")


@dataclass(frozen=True)
class ComparePlan:
    """Two programs and how often to run them.

    ``b`` None: the program of ``a``. ``sets`` holds for both sides, ``sets_a`` and ``sets_b`` for one;
    ``settings`` are run-block arguments of :func:`serq.compile`. Matched requests are grouped ``by`` their
    class, handle, stage (of A) or turn (None: by class where any has one, else by handle), and the ``shown``
    ones are named whose ``metric`` changed most.
    """

    a: Path
    b: Path | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    sets_a: Mapping[str, str] = field(default_factory=dict)
    sets_b: Mapping[str, str] = field(default_factory=dict)
    slos: Sequence[str] = ()
    replications: int = 5
    by: By | None = None
    metric: str = "e2e"
    shown: int = 5
    settings: Mapping[str, Any] = field(default_factory=dict)
    price_per_hour_b: float | None = None
    """What a device of B costs an hour, where that is not what one of A costs (in ``settings``)."""

    def check(self) -> None:
        """Raise UsageError for a plan that cannot be meant."""
        if self.replications < 1:
            raise UsageError(f"{self.replications} replications: there must be at least one")
        if self.b is None and not (self.sets_a or self.sets_b):
            raise UsageError("nothing to compare: give a second program, or --set-a or --set-b NAME=EXPR")
        for side in (self.sets_a, self.sets_b):
            both = set(side) & set(self.sets)
            if both:
                raise UsageError(f"`{min(both)}` is set for both sides and for one")
        if self.by == "engine":
            raise UsageError("a request may be at another engine in B: group by stage, or by class")
        if self.metric not in LATENCIES:
            raise UsageError(f"no latency `{self.metric}` of requests; there are {', '.join(LATENCIES)}")
        if self.price_per_hour_b is not None and self.settings.get("price_per_hour") is None:
            raise UsageError("a price for B alone compares nothing: give A's, too (--price-per-hour)")
        if self.shown < 1:
            raise UsageError(f"{self.shown} requests to show: there must be at least one")

    def compile(self) -> tuple[api.Program, api.Program]:
        """Both programs. Raises CompileError."""
        a = api.compile(self.a, sets={**self.sets, **self.sets_a}, slos=self.slos, **self.settings)
        file = self.a if self.b is None else self.b
        settings = dict(self.settings)
        if self.price_per_hour_b is not None:
            settings["price_per_hour"] = self.price_per_hour_b
        b = api.compile(file, sets={**self.sets, **self.sets_b}, slos=self.slos, **settings)
        return a, b

    @property
    def names(self) -> tuple[str, str]:
        """What the two sides are called: the file, and what is set for it alone."""
        pairs = ((self.a, self.sets_a), (self.a if self.b is None else self.b, self.sets_b))
        named = (" ".join([str(file), *(f"{k}={v}" for k, v in sets.items())]) for file, sets in pairs)
        a, b = named
        return a, b


class Verdict(Enum):
    """What the interval of a difference says of B."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    EQUAL = "equal"
    """The same in every seed, to the last digit."""
    NONE = "no difference shown"
    """The interval holds 0."""
    OPEN = "not judged"
    """Fewer than two seeds determine it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure in both programs: what every seed gave (NaN: not determined), and B less A."""

    name: Name
    better: Better
    a: Sequence[float]
    b: Sequence[float]

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """The values of the seeds in which both sides have one."""
        return [(a, b) for a, b in zip(self.a, self.b, strict=True) if isfinite(a) and isfinite(b)]

    @property
    def means(self) -> tuple[float, float]:
        """The mean over those seeds, of A and of B."""
        pairs = self.pairs
        if not pairs:
            return nan, nan
        return mean([a for a, _ in pairs]), mean([b for _, b in pairs])

    @property
    def interval(self) -> Interval:
        """Mean and half-width of the 95 % interval of B less A."""
        return interval([b - a for a, b in self.pairs]) if self.pairs else Interval(None, None)

    @property
    def verdict(self) -> Verdict:
        """Better and worse where the figure has a better side, else higher and lower."""
        pairs = self.pairs
        if pairs and len(pairs) == len(self.a) and all(a == b for a, b in pairs):
            return Verdict.EQUAL
        change, half_width = self.interval
        if change is None or half_width is None:
            return Verdict.OPEN
        if abs(change) <= half_width:
            return Verdict.NONE
        if not self.better:
            return Verdict.HIGHER if change > 0 else Verdict.LOWER
        return Verdict.BETTER if (change > 0) == (self.better == "more") else Verdict.WORSE


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """The matched requests of a group: how many in all seeds, and by metric the mean change of one.

    ``total`` is the sum of all changes by metric, over all seeds; it says which groups drive a difference.
    """

    name: str
    count: int
    changes: Mapping[str, Interval]
    total: Mapping[str, float]


@dataclass(frozen=True)
class Pair:
    """Both programs with one seed."""

    seed: int
    a: Mapping[Name, Measure]
    b: Mapping[Name, Measure]
    matched: Matched


@dataclass(frozen=True)
class Comparison:
    """The answer: one pair of runs a seed, figures and groups of requests over all of them."""

    plan: ComparePlan
    by: By
    metric: str
    """What the most changed requests are ordered by."""
    pairs: Sequence[Pair]

    def __repr__(self) -> str:
        from serq.studies.compare_text import compare_text

        return compare_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    @property
    def exact(self) -> bool:
        """Whether every seed gave the same to the last digit: the programs draw nothing that matters.

        Then differences are what they are, and an interval over the seeds would say nothing.
        """
        first = self.pairs[0]
        others = self.pairs[1:]
        return bool(others) and all(
            _same_figures(first.a, pair.a) and _same_figures(first.b, pair.b) for pair in others
        )

    @property
    def differences(self) -> list[Difference]:
        """The figures that both programs have, in the order in which they are shown."""
        first = self.pairs[0]
        names = [name for name in first.a if name in first.b]
        return [
            Difference(
                name,
                first.a[name].better or first.b[name].better,
                [pair.a[name].value if name in pair.a else nan for pair in self.pairs],
                [pair.b[name].value if name in pair.b else nan for pair in self.pairs],
            )
            for name in names
        ]

    @property
    def one_sided(self) -> list[tuple[str, Name]]:
        """The figures that only one program has, with its side."""
        first = self.pairs[0]
        return [
            *(("A", name) for name in first.a if name not in first.b),
            *(("B", name) for name in first.b if name not in first.a),
        ]

    @property
    def groups(self) -> list[GroupDifference]:
        """The matched requests by group, those first whose changes of the chosen metric add up to most."""
        names = dict.fromkeys(group.name for pair in self.pairs for group in pair.matched.groups)
        found = [self._group(name) for name in names]
        return sorted(found, key=lambda group: -abs(group.total.get(self.metric, 0.0)))

    @property
    def gained(self) -> list[Moved]:
        """The requests whose metric fell most, over all seeds."""
        moved = [one for pair in self.pairs for one in pair.matched.gained]
        return sorted(moved, key=lambda one: one.difference)[: self.plan.shown]

    @property
    def lost(self) -> list[Moved]:
        """The requests whose metric rose most, over all seeds."""
        moved = [one for pair in self.pairs for one in pair.matched.lost]
        return sorted(moved, key=lambda one: -one.difference)[: self.plan.shown]

    def _group(self, name: str) -> GroupDifference:
        found = [
            group.differences for pair in self.pairs for group in pair.matched.groups if group.name == name
        ]
        metrics = dict.fromkeys(metric for differences in found for metric in differences)
        changes, total = {}, {}
        for metric in metrics:
            known = [d[metric] for d in found if metric in d and d[metric][0]]
            changes[metric] = interval([change for _, change in known]) if known else Interval(None, None)
            total[metric] = sum(count * change for count, change in known)
        count = max(sum(d[metric][0] for d in found if metric in d) for metric in metrics)
        return GroupDifference(name, count, changes, total)


def _same_figures(one: Mapping[Name, Measure], other: Mapping[Name, Measure]) -> bool:
    return one.keys() == other.keys() and all(
        value == other[name].value or (isnan(value) and isnan(other[name].value))
        for name, (value, _) in one.items()
    )


def compare(plan: ComparePlan, *, backend: Backend | None = None) -> Comparison:
    """Run both programs with every seed.

    Raises UsageError, CompileError, and RunError where a run fails, with its side and seed.
    """
    plan.check()
    backend = backend or Backend()
    backend.check()
    a, b = plan.compile()
    nodes = [*descendants(a.ir), *descendants(b.ir)]
    sends = all(any(isinstance(s.kind, Vllm) for s in program.ir.stages) for program in (a, b))
    if not sends and plan.by not in (None, "handle", "session", "turn"):
        raise UsageError(f"--by {plan.by} is about requests of `vllm` stages, which both programs must have")
    labelled = sends and any(isinstance(node, Request) and node.label is not None for node in nodes)
    by = plan.by or ("class" if labelled else "handle")
    metric = plan.metric if sends else SAMPLE
    seeds = [a.ir.run.seed + replication for replication in range(plan.replications)]
    tasks = [_Task(a, b, seed, by, metric, plan.shown) for seed in seeds]
    pairs = sorted(backend.perform(_run_both, tasks), key=lambda pair: pair.seed)
    return Comparison(plan, by, metric, pairs)


@dataclass(frozen=True, slots=True)
class _Task:
    a: api.Program
    b: api.Program
    seed: int
    by: By
    metric: str
    shown: int


def _run_both(task: _Task) -> Pair:
    a, b = (_run(task, side) for side in SIDES)
    metric = task.metric
    matched = match(
        units(a.records, metric),
        units(b.records, metric),
        by=task.by,
        metric=metric,
        seed=task.seed,
        shown=task.shown,
    )
    return Pair(task.seed, measures(a, task.a.ir.objectives), measures(b, task.b.ir.objectives), matched)


def _run(task: _Task, side: str) -> Report:
    program = task.a if side == "A" else task.b
    try:
        return api.run(replace(program, ir=with_settings(program.ir, {"seed": task.seed})))
    except RunError as error:
        raise RunError(f"{side} with seed {task.seed}: {error}") from None
