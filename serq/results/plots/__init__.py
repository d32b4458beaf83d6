"""Pictures of a run, one function a figure; each draws data that another function computes and tests pin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from serq.results.plots import engines, lanes, latency

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: Final[Mapping[str, Callable[..., Figure]]] = {
    "latency": latency.latency,
    "timeline": engines.timeline,
    "lanes": lanes.lanes,
    "composition": engines.composition,
    "budget": engines.budget,
}
"""Name -> what draws the figure of a run: called with its records and the name that its title gives it.

Each raises UsageError where the run has nothing of the kind.
"""
