"""``python -m tests.statistics.coverage``: do 95 % intervals hold the truth 95 times in a hundred?

Every model of queueing theory runs with 400 seeds; the share of reports whose interval (mean +- ci of
`response`, batch means) holds the closed form must lie between 92 and 98 %. `--of p50` and `--of p99` ask the
same of the intervals of quantiles, of M/M/1 alone, whose response times are exponential. Takes a while: see
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
from tests.statistics.closed_forms import mm1_response_quantile
from tests.statistics.models import Model, models

QUANTILES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True)
class Interval:
    """A figure of one run and its 95 % interval; a side that is open holds everything."""

    figure: float
    low: float
    high: float

    def holds(self, truth: float) -> bool:
        return not truth < self.low and not truth > self.high


def interval(model: Model, of: str, seed: int) -> Interval:
    """One run of ``model``: the mean of its response times or one of their quantiles."""
    response = serq.run(serq.compile(source=model.source, seed=seed)).observations["response"]
    if of == "mean":
        return Interval(response.mean, response.mean - response.ci, response.mean + response.ci)
    return Interval(*(getattr(response, name) for name in (of, f"{of}_low", f"{of}_high")))


def truth_of(model: Model, of: str) -> float | None:
    """The closed form; None where there is none."""
    if of == "mean":
        return model.truth
    return mm1_response_quantile(model.truth, QUANTILES[of]) if model.name.startswith("M/exp/1 at") else None


def covered(intervals: Sequence[Interval], truth: float) -> float:
    """The share of intervals that hold the truth."""
    return sum(found.holds(truth) for found in intervals) / len(intervals)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.statistics.coverage", description=__doc__)
    parser.add_argument("--of", choices=("mean", *QUANTILES), default="mean", help="which figure")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--length", type=float, default=1.0, help="scales the length of the runs")
    parser.add_argument("--only", default="", help="models whose name contains this")
    options = parser.parse_args()
    outside = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for model in (model for model in models(options.length) if options.only in model.name):
            truth = truth_of(model, options.of)
            if truth is None:
                continue
            run = partial(interval, model, options.of)
            intervals = list(pool.map(run, range(1, options.seeds + 1), chunksize=8))
            share = covered(intervals, truth)
            mean = sum(found.figure for found in intervals) / len(intervals)
            honest = 0.92 <= share <= 0.98
            outside += not honest
            mark = "" if honest else "  OUTSIDE"
            print(
                f"{model.name:20s} truth {truth:9.5f}  mean {mean:9.5f}  covered {share:6.1%}{mark}",
                flush=True,
            )
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
