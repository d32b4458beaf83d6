"""The distribution of latencies: which share of the requests took at most so long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isnan
from typing import TYPE_CHECKING

from serq.errors import UsageError
from serq.results import metrics
from serq.results.plots.style import entitle, new_figure, styled
from serq.runtime.records import Records
from serq.runtime.request_records import RequestTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_PANELS = 3
_OF_REQUESTS = {
    "time to first token": metrics.ttft,
    "time per output token": metrics.tpot,
    "end to end": metrics.e2e,
}


@dataclass(frozen=True, slots=True)
class Distribution:
    """The samples of one latency, sorted; share ``(i + 1) / n`` of them is at most ``values[i]``."""

    name: str
    values: Sequence[float]


def latency_distributions(records: Records) -> list[Distribution]:
    """TTFT, TPOT and E2E of the requests that ran to their end since warm-up; without requests, observations.

    Raises UsageError where there is nothing to show.
    """
    table = records.requests
    places = metrics.served_places(table, records.warmup)
    found = _of_requests(table, places) if places else []
    if not found:
        observed = [(name, series.values) for name, series in records.series.items()]
        found = [Distribution(name, _sorted(values)) for name, values in observed if len(values) > 1]
    if not found:
        raise UsageError("there is no latency to draw: no request ended and nothing was observed twice")
    return found[:_MOST_PANELS]


def _of_requests(table: RequestTable, places: Sequence[int]) -> list[Distribution]:
    found = ((name, _sorted(metric(table, places))) for name, metric in _OF_REQUESTS.items())
    return [Distribution(name, values) for name, values in found if values]


def _sorted(values: Sequence[float]) -> list[float]:
    return sorted(value for value in values if not isnan(value))


def latency(records: Records, of: str = "") -> Figure:
    """One panel a latency: the share of requests within it, with median, p90 and p99 marked."""
    distributions = latency_distributions(records)
    with styled():
        figure, axes = new_figure(1, len(distributions), height=3.0, sharey=True)
        for panel, distribution in zip(axes[0], distributions, strict=True):
            values, count = distribution.values, len(distribution.values)
            panel.step(values, [(i + 1) / count for i in range(count)], where="post")
            for share in (0.5, 0.9, 0.99):
                value = values[ceil(share * count) - 1]
                panel.plot([value], [share], "o", color="#D55E00", markersize=4)
                panel.annotate(
                    f"p{100 * share:g} {value:.3g} s", (value, share),
                    xytext=(3, -1), textcoords="offset points", va="top", fontsize=7.5,
                )  # fmt: skip
            panel.set(xlabel=f"{distribution.name} [s]", ylim=(0, 1.02))
            panel.set_xlim(left=0)
            panel.locator_params(axis="x", nbins=4)
        of_requests = distributions[0].name in _OF_REQUESTS
        axes[0][0].set_ylabel("share of requests" if of_requests else "share of samples")
        entitle(figure, f"Latencies of {'requests' if of_requests else 'what is observed'}", of)
    return figure
