"""``python -m tests.fuzz.fast_steps --programs 10000``: planned iterations record what the walk records.

Every random program of a `step` stage runs twice, with ``reference`` and with ``auto`` engines, and all that
was recorded is compared, to the last bit. A program that differs is written to ``build/fuzz``. Ends with 1 if
any does.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import serq
from serq.errors import RunError
from serq.runtime.engine import Engine
from serq.runtime.simulation import Simulation
from tests.fuzz.command import keep, seeds_asked_for
from tests.fuzz.step_programs import random_step_program
from tests.fuzz.straight_programs import random_straight_program
from tests.fuzz.unwatched_programs import random_unwatched_program

COMPARED = (
    *("end", "events", "arrivals", "ended", "turns", "mean_live", "series", "stages", "pools", "gauges"),
    *("warnings", "stopped"),
)


@dataclass
class Result:
    """What a comparison found."""

    programs: int = 0
    differing: dict[int, str] = field(default_factory=dict)
    """Seed -> the first column that differs."""
    planned: int = 0
    walked: Counter[str] = field(default_factory=Counter)


def compare(seeds: Iterable[int]) -> Result:
    """Run the programs of ``seeds`` both ways."""
    result = Result()
    for seed in seeds:
        program = serq.compile(source=program_of(seed))
        walk, _ = recorded(program, "reference")
        fast, engines = recorded(program, "auto")
        result.programs += 1
        if walk != fast:
            print(f"program {seed} differs", flush=True)
            result.differing[seed] = next(name for name in walk if walk[name] != fast[name])
        for engine in engines:
            result.planned += engine.planned_steps
            result.walked.update({reason.name: count for reason, count in engine.walked_steps.items()})
    return result


def program_of(seed: int) -> str:
    """The text of ``seed``: of every three programs one is straight, and one has engines nobody looks at."""
    return (random_step_program, random_unwatched_program, random_straight_program)[seed % 3](seed)


def recorded(
    program: serq.Program, mode: Literal["reference", "auto"]
) -> tuple[dict[str, str], list[Engine]]:
    """Everything that a run recorded, as text, and its engines."""
    settings = program.ir.run
    assert settings.horizon is not None
    run = Simulation(
        program.ir,
        seed=settings.seed,
        horizon=settings.horizon,
        warmup=settings.warmup,
        arrivals=settings.arrivals,
        trace=None,
        engine=mode,
    )
    error, stopped = "", None
    try:
        run.run()
    except RunError as failure:
        error, stopped = f"{failure} at {run.clock.now!r}", failure.message
    records = run.records(stopped=stopped)
    found = {name: repr(getattr(records, name)) for name in COMPARED}
    engines = [stage for stage in run.world.planners if isinstance(stage, Engine)]
    return {"error": error, **found}, engines


def main(arguments: list[str] | None = None) -> int:
    result = compare(seeds_asked_for(__doc__, arguments))
    for seed, column in result.differing.items():
        keep("step", seed, program_of(seed), [column])
    print(f"{result.programs} programs, {len(result.differing)} differ")
    print(f"{result.planned} iterations planned, walked: {dict(result.walked.most_common())}")
    return int(bool(result.differing))


if __name__ == "__main__":
    sys.exit(main())
