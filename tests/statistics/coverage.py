"""``python -m tests.statistics.coverage``: do 95 % intervals hold the truth 95 times in a hundred?

Every model of queueing theory runs with 400 seeds; the share of reports whose interval (mean +- ci of
`response`, batch means) holds the closed form must lie between 92 and 98 %. Takes a while: see
docs/development.md. Ends with 1 if a model is outside.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import serq
from tests.statistics.models import Model, models


@dataclass(frozen=True)
class Interval:
    """The mean response time of one run and the half-width of its 95 % interval."""

    mean: float
    half_width: float

    def holds(self, truth: float) -> bool:
        return abs(self.mean - truth) <= self.half_width


def interval(model: Model, seed: int) -> Interval:
    """One run of ``model``."""
    response = serq.run(serq.compile(source=model.source, seed=seed)).observations["response"]
    return Interval(response.mean, response.ci)


def covered(intervals: Sequence[Interval], truth: float) -> float:
    """The share of intervals that hold the truth."""
    return sum(found.holds(truth) for found in intervals) / len(intervals)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.statistics.coverage", description=__doc__)
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--length", type=float, default=1.0, help="scales the length of the runs")
    parser.add_argument("--only", default="", help="models whose name contains this")
    options = parser.parse_args()
    outside = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for model in (model for model in models(options.length) if options.only in model.name):
            intervals = list(pool.map(partial(interval, model), range(1, options.seeds + 1), chunksize=8))
            share = covered(intervals, model.truth)
            mean = sum(found.mean for found in intervals) / len(intervals)
            honest = 0.92 <= share <= 0.98
            outside += not honest
            mark = "" if honest else "  OUTSIDE"
            print(
                f"{model.name:20s} truth {model.truth:9.5f}  mean {mean:9.5f}  covered {share:6.1%}{mark}",
                flush=True,
            )
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
