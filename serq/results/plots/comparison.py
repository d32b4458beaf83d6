"""Two programs: by how much every figure of B differs from that of A, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Final

from serq.errors import UsageError
from serq.results.plots.style import COLOURS, entitle, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS: Final = {"better": COLOURS[2], "worse": COLOURS[1]}
_OTHER: Final = "#777777"


@dataclass(frozen=True, slots=True)
class Change:
    """One figure: its mean in A, B less A with the half-width of its 95 % interval, and the verdict.

    NaN where a number is not determined.
    """

    name: str
    a: float
    difference: float
    half_width: float
    verdict: str


@dataclass(frozen=True, slots=True)
class Bar:
    """What is drawn of a change: percent of A."""

    name: str
    percent: float
    half_width: float
    verdict: str


def bars(changes: Sequence[Change]) -> list[Bar]:
    """The changes as percent of A; those without one, or of a figure that is 0 in A, are left out.

    Raises UsageError where none is left.
    """
    found = [
        Bar(
            change.name,
            100 * change.difference / abs(change.a),
            100 * change.half_width / abs(change.a) if isfinite(change.half_width) else nan,
            change.verdict,
        )
        for change in changes
        if isfinite(change.a) and change.a != 0 and isfinite(change.difference)
    ]
    if not found:
        raise UsageError("there is no difference to draw: no figure has a value in both programs")
    return found


def comparison(changes: Sequence[Change], names: tuple[str, str]) -> Figure:
    """One line a figure: the difference in percent of A and its 95 % interval, coloured by verdict."""
    rows = bars(changes)
    with styled():
        figure, axes = new_figure(height=1.2 + 0.22 * len(rows))
        panel = axes[0][0]
        panel.axvline(0, color="black", linewidth=1)
        for place, row in enumerate(rows):
            colour = _COLOURS.get(row.verdict, _OTHER)
            width = row.half_width if isfinite(row.half_width) else None
            panel.errorbar(
                row.percent, place, xerr=width, fmt="o", color=colour, markersize=4, capsize=2, linewidth=1.2
            )
        panel.set_yticks(range(len(rows)), [row.name for row in rows])
        panel.invert_yaxis()
        panel.set(xlabel="B - A, percent of A (95 % interval)", title=f"A: {names[0]}\nB: {names[1]}")
        for verdict, colour in (*_COLOURS.items(), ("no difference shown, or no better side", _OTHER)):
            panel.plot([], [], "o", color=colour, markersize=4, label=verdict)
        panel.legend(loc="best")
        entitle(figure, "What is different in B", "")
    return figure
