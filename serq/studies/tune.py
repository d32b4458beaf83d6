"""`serq tune`: engine options for a workload and its objectives, with as few changes as it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from serq import api
from serq.errors import RunError, UsageError
from serq.ir import nodes
from serq.ir.engine_options import ENGINE_OPTIONS
from serq.ir.nearest import closest
from serq.ir.validate import validate
from serq.studies.backend import Backend
from serq.studies.exactness import draws_nothing
from serq.studies.replications import Interval, interval

Value = int | float | bool

CANDIDATES: Final[Mapping[str, Sequence[Value]]] = {
    "max_num_seqs": (64, 128, 256, 512),
    "max_num_batched_tokens": (1024, 2048, 4096, 8192, 16384),
}
"""What is tried where nothing is said: the two options that users ask about most, around their defaults."""

MOST_CONFIGURATIONS: Final = 1000


@dataclass(frozen=True)
class TunePlan:
    """A program with objectives, and the values to try for options of its `vllm` stages.

    Every combination is run with ``replications`` seeds, the same ones for all (one where nothing is drawn).
    ``stage`` names the stage whose options are tuned (None: all of them). A configuration with fewer changes
    from vLLM's defaults is preferred while it is certain to lose no more than ``within`` of the best goodput.
    """

    file: Path
    candidates: Mapping[str, Sequence[Value]] = field(default_factory=lambda: dict(CANDIDATES))
    stage: str | None = None
    slos: Sequence[str] = ()
    replications: int = 3
    within: float = 0.01
    sets: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Values of the tuned options; ``changes`` of them differ from vLLM's defaults."""

    options: Mapping[str, Value]

    @property
    def changes(self) -> int:
        """How many differ from the default."""
        return sum(value != ENGINE_OPTIONS[name].default for name, value in self.options.items())

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.options.items())


@dataclass(frozen=True)
class Trial:
    """What a configuration gave: goodput of every seed, whether all objectives were met in all of them.

    ``failure`` says why it could not be run.
    """

    configuration: Configuration
    goodput: Sequence[float] = ()
    met: bool = False
    worst: str = ""
    """The objective that was furthest from being met, with what was measured; empty if all were met."""
    failure: str | None = None

    @property
    def mean(self) -> float:
        """The goodput, in requests a second, over the seeds."""
        return sum(self.goodput) / len(self.goodput) if self.goodput else 0.0


@dataclass(frozen=True)
class Tuned:
    """The answer; ``chosen`` is None where no configuration meets the objectives: ``best`` is nearest."""

    plan: TunePlan
    trials: Sequence[Trial]
    best: Trial
    chosen: Trial | None
    engine: nodes.Vllm
    """The stage with the options of ``chosen``, or of ``best``."""
    exact: bool = False
    """Whether nothing is drawn: each configuration ran with one seed, and its goodput is exact."""

    def loss(self, trial: Trial) -> Interval:
        """What a trial loses of the best goodput, as a share, paired by seed."""
        return _loss(trial, self.best)


def tune(plan: TunePlan, *, backend: Backend | None = None) -> Tuned:
    """Run every configuration and choose. Raises UsageError, CompileError.

    Raises UsageError where no configuration can be run.
    """
    backend = backend or Backend()
    backend.check()
    program = _compiled(plan)
    stages = _stages(program.ir, plan.stage)
    configurations = list(_configurations(plan))
    exact = draws_nothing(program)
    if exact:
        plan = replace(plan, replications=1)
    tasks = [(plan, program, stages, configuration) for configuration in configurations]
    found = {str(trial.configuration): trial for trial in backend.perform(_try, tasks)}
    trials = [found[str(configuration)] for configuration in configurations]
    able = [trial for trial in trials if trial.failure is None]
    if not able:
        raise UsageError(f"no configuration can be run; the first: {trials[0].failure}")
    meeting = [trial for trial in able if trial.met]
    best = max(meeting or able, key=lambda trial: (trial.mean, -trial.configuration.changes))
    chosen = _simplest(meeting, best, plan.within) if meeting else None
    shown = (chosen or best).configuration
    engine = next(s.kind for s in program.ir.stages if s.name in stages and isinstance(s.kind, nodes.Vllm))
    return Tuned(plan, trials, best, chosen, msgspec.structs.replace(engine, **shown.options), exact)


def _simplest(trials: Sequence[Trial], best: Trial, within: float) -> Trial:
    """The trial with the fewest changes that surely loses no more than ``within``; among those the best."""
    close = [trial for trial in trials if trial is best or _at_most(_loss(trial, best), within)]
    return min(close, key=lambda trial: (trial.configuration.changes, -trial.mean))


def _loss(trial: Trial, best: Trial) -> Interval:
    if not best.mean:
        return Interval(0.0, None)
    pairs = zip(best.goodput, trial.goodput, strict=True)
    return interval([(one - other) / best.mean for one, other in pairs])


def _at_most(loss: Interval, within: float) -> bool:
    return loss.mean is not None and loss.mean + (loss.half_width or 0.0) <= within


def _compiled(plan: TunePlan) -> api.Program:
    if plan.replications < 1:
        raise UsageError(f"{plan.replications} replications: there must be at least one")
    program = api.compile(plan.file, sets=plan.sets, slos=plan.slos, **plan.settings)
    if not program.ir.objectives:
        raise UsageError(f"{plan.file} has no objective: write `slo ttft p99 < 2;`, or give `--slo`")
    return program


def _stages(program: nodes.Program, name: str | None) -> frozenset[str]:
    """The names of the stages whose options are tuned."""
    engines = [stage.name for stage in program.stages if isinstance(stage.kind, nodes.Vllm)]
    if not engines:
        raise UsageError("the program has no `vllm` stage to tune")
    if name is None:
        return frozenset(engines)
    if name not in engines:
        raise UsageError(f"there is no `vllm` stage `{name}`; there are {', '.join(engines)}")
    return frozenset({name})


def _configurations(plan: TunePlan) -> Iterator[Configuration]:
    size = 1
    for name, values in plan.candidates.items():
        if name not in ENGINE_OPTIONS or ENGINE_OPTIONS[name].type not in ("count", "number", "switch"):
            near = closest(name, ENGINE_OPTIONS)
            hint = f"; did you mean `{near}`?" if near else ""
            raise UsageError(f"`{name}` is no option of an engine that can be tuned{hint}")
        size *= len(values)
    if not 1 <= size <= MOST_CONFIGURATIONS:
        raise UsageError(f"{size} configurations: there must be 1 to {MOST_CONFIGURATIONS}")
    for values in product(*plan.candidates.values()):
        yield Configuration(dict(zip(plan.candidates, values, strict=True)))


_Task = tuple[TunePlan, api.Program, frozenset[str], Configuration]


def _try(task: _Task) -> Trial:
    plan, program, stages, configuration = task
    ir = _with_options(program.ir, stages, configuration.options)
    errors = [problem.message for problem in validate(ir) if problem.severity == "error"]
    if errors:
        return Trial(configuration, failure=errors[0])
    goodput, missed = [], []
    for replication in range(plan.replications):
        seeded = nodes.with_settings(ir, {"seed": ir.run.seed + replication})
        try:
            answers = api.run(replace(program, ir=seeded)).answers
        except RunError as error:
            return Trial(configuration, failure=error.message)
        goodput.append(answers.goodput[0].per_second)
        missed += [row for row in answers.objectives if not row.met]
    worst = min(missed, key=lambda row: row.within, default=None)
    text = "" if worst is None else f"{worst.objective}: measured {worst.measured:.4g}"
    return Trial(configuration, goodput, not missed, text)


def _with_options(
    program: nodes.Program, stages: frozenset[str], options: Mapping[str, Value]
) -> nodes.Program:
    def changed(stage: nodes.Stage) -> nodes.Stage:
        if stage.name not in stages:
            return stage
        return msgspec.structs.replace(stage, kind=msgspec.structs.replace(stage.kind, **options))

    return msgspec.structs.replace(program, stages=tuple(map(changed, program.stages)))
