"""``python -m tests.fuzz.open_runs --programs 20000 --seed 1``: runs ahead of the clock record what walks do.

Every random program with an open workload runs three times: ahead of the clock where that is possible, on the
clock with steps planned ahead, and walked step by step. Everything recorded is compared: requests, steps,
figures, samples, findings, stays, preemptions, and how the run ended. A program that differs is written to
``build/fuzz``. Ends with 1 if any does.
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
from serq.runtime.serving.engines import EngineMode
from serq.runtime.simulation import simulate
from tests.fuzz.command import keep, seeds_asked_for
from tests.fuzz.fast_path import columns, difference
from tests.fuzz.open_programs import OpenProgram


@dataclass
class Comparison:
    """What the runs of one program recorded; ``reason``: why it was on the clock ("": it was not)."""

    text: str
    differences: list[str] = field(default_factory=list)
    refused: bool = False
    reason: str = ""
    preemptions: int = 0
    steps: int = 0


def compared(text: str, modes: tuple[EngineMode, ...] = ("planned", "reference")) -> Comparison:
    """Run ``text`` ahead of the clock and in ``modes``."""
    result = Comparison(text)
    try:
        program = api.compile(source=text)
    except CompileError:
        result.refused = True
        return result
    ahead, records = _run(program, "auto")
    if records is not None:
        result.reason = records.clock_reason or ""
        result.steps = sum(engine.steps for engine in records.engines)
        result.preemptions = sum(engine.preemptions for engine in records.engines)
    for mode in modes if not result.reason else ():
        other, _ = _run(program, mode)
        result.differences += [
            f"{name}, {mode}: {difference(value, ahead.get(name))}"
            for name, value in other.items()
            if value != ahead.get(name)
        ]
    return result


def _run(program: api.Program, mode: EngineMode) -> tuple[dict[str, Any], Records | None]:
    try:
        records = simulate(program.ir, engine=mode)
    except RunError as error:
        return {"error": str(error)}, error.records
    except SerqError as error:
        return {"error": str(error)}, None
    return columns(records), records


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    seeds = seeds_asked_for(__doc__, arguments)
    refused = differing = steps = preempting = 0
    reasons: Counter[str] = Counter()
    for seed in seeds:
        text = OpenProgram(seed).text()
        try:
            result = compared(text)
        except Exception:  # what no mode may do
            result = Comparison(text, [traceback.format_exc()])
        refused += result.refused
        if not result.reason:
            steps += result.steps
            preempting += result.preemptions > 0
        reasons[result.reason] += not result.refused
        if result.differences:
            differing += 1
            keep("open", seed, text, result.differences)
    ahead = reasons.pop("", 0)
    print(f"{len(seeds)} programs, {refused} refused, {differing} differ")
    print(f"{ahead} ahead of the clock: {steps} steps, {preempting} with preemptions")
    print(f"on the clock: {dict(reasons.most_common())}")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
