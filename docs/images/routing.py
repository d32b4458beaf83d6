"""Draw routing.svg: time to first token over load, for three ways to route to two engines.

Usage: python docs/images/routing.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

import serq

HERE = Path(__file__).parent
PROGRAM = HERE.parents[1] / "examples" / "tutorial" / "5_replicas.sq"
ROUTINGS = {"at random": 0, "in turn": 1, "to the shortest queue": 2}
RATES = (16, 20, 24, 26, 28, 30)


def ttft(rate: float, routing: int) -> tuple[float, float]:
    """Median and 99th percentile of the time to first token, in milliseconds."""
    report = serq.run(serq.compile(PROGRAM, sets={"rate": rate, "routing": routing}))
    median, p99 = report.observe("ttft")["value"].quantile([0.5, 0.99])
    return 1000 * median, 1000 * p99


def draw() -> None:
    """Run all points, write the picture beside this file."""
    pyplot.rcParams["svg.hashsalt"] = "serq"
    figure, axes = pyplot.subplots(figsize=(7.5, 3.6), layout="constrained")
    for (label, routing), marker in zip(ROUTINGS.items(), "os^", strict=True):
        points = [ttft(rate, routing) for rate in RATES]
        (line,) = axes.plot(RATES, [p99 for _, p99 in points], marker=marker, label=f"{label}, p99")
        medians = [median for median, _ in points]
        axes.plot(RATES, medians, ":", marker=marker, color=line.get_color(), label=f"{label}, median")
    axes.set(xlabel="requests a second", ylabel="time to first token [ms]", yscale="log")
    axes.set_title("Two engines behind a router: examples/tutorial/5_replicas.sq", fontsize=10)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8, ncols=1, loc="upper left")
    figure.savefig(HERE / "routing.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw()
