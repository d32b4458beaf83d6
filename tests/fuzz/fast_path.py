"""``python -m tests.fuzz.fast_path --programs 20000 --seed 1``: planned runs record what the walk records.

Every random program runs twice, with ``reference`` and with ``auto`` engines, and everything recorded is
compared: requests, steps, figures, gauges, samples, findings, and how the run ended. A program that differs
is written to ``build/fuzz``. Ends with 1 if any does.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from serq import api
from serq.errors import CompileError, RunError, SerqError
from serq.runtime.records import Records
from serq.runtime.simulation import Simulation
from tests.fuzz.command import keep, seeds_asked_for
from tests.fuzz.engine_programs import EngineProgram


@dataclass
class Comparison:
    """What two runs of one program recorded."""

    text: str
    differences: list[str] = field(default_factory=list)
    refused: bool = False
    planned: int = 0
    walked: Counter[str] = field(default_factory=Counter)


def compared(text: str) -> Comparison:
    """Run ``text`` both ways."""
    result = Comparison(text)
    try:
        program = api.compile(source=text)
    except CompileError:
        result.refused = True
        return result
    walk, fast = (_run(program, mode) for mode in ("reference", "auto"))
    result.differences = [
        f"{name}: {difference(walk[name], fast[name])}" for name in walk if walk[name] != fast.get(name)
    ]
    for engine in fast.pop("engines of the fast run", ()):
        result.planned += engine.planned_steps
        result.walked.update({reason.name: count for reason, count in engine.walked_steps.items()})
    return result


def _run(program: api.Program, mode: Any) -> dict[str, Any]:
    settings = program.ir.run
    assert settings.horizon is not None
    found: dict[str, Any] = {"error": None}
    try:
        run = Simulation(
            program.ir,
            seed=settings.seed,
            horizon=settings.horizon,
            warmup=settings.warmup,
            arrivals=settings.arrivals,
            trace=None,
            engine=mode,
        )
    except SerqError as error:
        return {"error": str(error)}
    try:
        run.run(None)
        records = run.records()
    except RunError as error:
        found["error"] = f"{error} at {run.clock.now}"
        records = run.records(stopped=error.message)
    found |= columns(records)
    if mode == "auto":
        found["engines of the fast run"] = run.deployment.serving.engines
    return found


def columns(records: Records) -> dict[str, Any]:
    """Everything in ``records`` that must not depend on how engines run, as text."""
    found: dict[str, Any] = {
        name: repr(getattr(records, name))
        for name in ("end", "events", "arrivals", "ended", "turns", "mean_live", "series", "stages", "pools",
                     "warnings", "requests", "gauges", "prices", "stopped")
    }  # fmt: skip
    for number, row in enumerate(records.engines):
        for name in (
            *("steps", "tokens", "preemptions", "prefix_hit_rate", "mean_kv_usage"),
            *("table", "queue", "victims"),
        ):
            found[f"engine {number}, {name}"] = repr(getattr(row, name))
    return found


def difference(walk: Any, fast: Any) -> str:
    one, two = str(walk), str(fast)
    at = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    return f"…{one[max(0, at - 60) : at + 40]}… walked, …{two[max(0, at - 60) : at + 40]}… planned"


def main(arguments: list[str] | None = None) -> int:
    seeds = seeds_asked_for(__doc__, arguments)
    refused = differing = planned = 0
    walked: Counter[str] = Counter()
    for seed in seeds:
        text = EngineProgram(seed).text()
        try:
            result = compared(text)
        except Exception:  # what neither mode may do
            result = Comparison(text, [traceback.format_exc()])
        refused += result.refused
        planned += result.planned
        walked += result.walked
        if result.differences:
            differing += 1
            keep("fast", seed, text, result.differences)
    print(f"{len(seeds)} programs, {refused} refused, {differing} differ")
    print(f"{planned} steps planned, walked: {dict(walked.most_common())}")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
