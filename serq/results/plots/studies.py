"""Studies: a figure over a setting, over two of them, and what one figure costs in another.

A point is a row of ``points.csv``: settings as texts, figures as numbers, ``FIGURE.ci95`` their half-widths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import inf, isnan, nan
from typing import TYPE_CHECKING, Any, Final

from serq.errors import UsageError
from serq.ir.nearest import closest
from serq.results.plots.labels import axis_label
from serq.results.plots.style import COLOURS, MARKERS, entitle, legend, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: ``y`` over ``x``, with the half-widths of its 95 % intervals (NaN: none)."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    half_width: Sequence[float]


def lines(points: Sequence[Point], x: str, y: str, by: str | None = None) -> list[Line]:
    """The figure ``y`` over the setting ``x``, one line for every value of the setting ``by``.

    Points without the figure are left out. Raises UsageError where a name is none, or no point is left.
    """
    _check(points, x, y, *([by] if by else []))
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for point in points:
        value = number(point[y])
        if not isnan(value):
            name = f"{by} {point[by]}" if by else y
            half_width = number(point.get(f"{y}.ci95"))
            groups.setdefault(name, []).append((number(point[x]), value, half_width))
    if not groups:
        raise UsageError(f"no point has the figure `{y}`")
    return [Line(name, *map(list, zip(*sorted(rows), strict=True))) for name, rows in groups.items()]


def crossing(line: Line, limit: float) -> float | None:
    """Where the line first rises through ``limit``, linear between points; None where it does not."""
    for (x0, y0), (x1, y1) in pairwise(zip(line.x, line.y, strict=True)):
        if y0 <= limit < y1:
            return x0 + (x1 - x0) * (limit - y0) / (y1 - y0)
    return None


def curve(
    points: Sequence[Point],
    x: str,
    y: str,
    *,
    by: str | None = None,
    limit: float | None = None,
    of: str = "",
) -> Figure:
    """A figure over a setting, with its intervals; ``limit`` is an objective, and its breaking is marked."""
    with styled():
        figure, axes = new_figure(height=3.4)
        panel = axes[0][0]
        for place, line in enumerate(lines(points, x, y, by)):
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
            panel.plot(line.x, line.y, marker=marker, markersize=4, color=colour, label=line.name)
            least = 0.0 if min(line.y) >= 0 else -inf  # what is never negative has no interval below 0
            low = [max(value - width, least) for value, width in zip(line.y, line.half_width, strict=True)]
            high = [value + width for value, width in zip(line.y, line.half_width, strict=True)]
            panel.fill_between(line.x, low, high, color=colour, alpha=0.2, linewidth=0)
            breaks = None if limit is None else crossing(line, limit)
            if breaks is not None:
                panel.plot([breaks], [limit], marker="x", color=colour, markersize=8)
                panel.annotate(f"{breaks:.4g}", (breaks, limit), xytext=(4, 4), textcoords="offset points")
        if limit is not None:
            panel.axhline(limit, color="black", linestyle="--", linewidth=1)
        panel.set(xlabel=x, ylabel=axis_label(y))
        _settings_along(panel, [number(point[x]) for point in points])
        legend(panel)
        entitle(figure, f"{_heading(y)} over {x}", of)
    return figure


def _heading(figure: str) -> str:
    """A figure as the beginning of a title: without its unit."""
    words = axis_label(figure).partition(" [")[0]
    return words[:1].upper() + words[1:] if figure.startswith(("requests.", "goodput.")) else words


def _settings_along(panel: Axes, values: Sequence[float]) -> None:
    """Ticks where settings can be: at whole numbers for whole ones, at each where they are far apart."""
    known = sorted({value for value in values if not isnan(value)})
    if len(known) > 1 and known[0] > 0 and known[-1] >= _FAR_APART * known[0]:
        panel.set_xscale("log")
        panel.set_xticks(known, [f"{value:g}" for value in known])
        panel.set_xticks([], minor=True)
    elif all(value.is_integer() for value in known):
        panel.locator_params(axis="x", integer=True)


_FAR_APART: Final = 16
"""So many times the smallest setting is the largest where equal steps would crowd the small ones."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A figure over two settings: ``values[row][column]`` belongs to ``y[row]`` and ``x[column]``."""

    x: Sequence[float]
    y: Sequence[float]
    values: Sequence[Sequence[float]]


def grid(points: Sequence[Point], x: str, y: str, figure: str) -> Grid:
    """The figure at every pair of settings; NaN where there is none. The mean where other settings vary too.

    Raises UsageError where a name is none.
    """
    _check(points, x, y, figure)
    xs = sorted({number(point[x]) for point in points})
    ys = sorted({number(point[y]) for point in points})
    found: dict[tuple[float, float], list[float]] = {}
    for point in points:
        value = number(point[figure])
        if not isnan(value):
            found.setdefault((number(point[y]), number(point[x])), []).append(value)
    cells = [[found.get((row, column), []) for column in xs] for row in ys]
    return Grid(xs, ys, [[sum(cell) / len(cell) if cell else nan for cell in row] for row in cells])


def heat_map(points: Sequence[Point], x: str, y: str, figure: str, *, of: str = "") -> Figure:
    """A figure over two settings, every cell with its number."""
    data = grid(points, x, y, figure)
    with styled():
        drawn, axes = new_figure(height=1.4 + 0.45 * len(data.y))
        panel = axes[0][0]
        panel.grid(visible=False)
        image = panel.imshow(data.values, origin="lower", aspect="auto", cmap="cividis")
        middle = sum(image.get_clim()) / 2
        for row, values in enumerate(data.values):
            for column, value in enumerate(values):
                colour = "white" if value < middle else "black"
                text = "-" if isnan(value) else f"{value:.3g}"
                panel.text(column, row, text, ha="center", va="center", fontsize=7.5, color=colour)
        panel.set_xticks(range(len(data.x)), [f"{value:g}" for value in data.x])
        panel.set_yticks(range(len(data.y)), [f"{value:g}" for value in data.y])
        panel.set(xlabel=x, ylabel=y)
        drawn.colorbar(image, ax=panel, label=axis_label(figure))
        entitle(drawn, f"{_heading(figure)} over {x} and {y}", of)
    return drawn


def front(
    points: Sequence[Point], one: str, other: str, better: tuple[str, str] = ("less", "more")
) -> list[int]:
    """The places of the points that no other point beats in ``one`` without being worse in ``other``.

    ``better`` says of each figure which way is better. Raises UsageError where a name is none.
    """
    _check(points, one, other)
    sign_one, sign_other = (-1 if way == "more" else 1 for way in better)
    pairs = [
        (sign_one * number(point[one]), -sign_other * number(point[other]), place)
        for place, point in enumerate(points)
    ]
    best, kept = -inf, []
    for cost, gain, place in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        if not isnan(cost) and gain > best:
            best = gain
            kept.append(place)
    return kept


def pareto(
    points: Sequence[Point],
    low: str,
    high: str,
    settings: Sequence[str] = (),
    better: tuple[str, str] = ("less", "more"),
    of: str = "",
) -> Figure:
    """All points by two figures, ``better`` as each says; the front is joined and named."""
    kept = front(points, low, high, better)
    with styled():
        figure, axes = new_figure(height=3.6)
        panel = axes[0][0]
        panel.plot([number(p[low]) for p in points], [number(p[high]) for p in points], "o", color="#BBBBBB")
        best = [points[place] for place in kept]
        panel.plot([number(p[low]) for p in best], [number(p[high]) for p in best], "o-", color=COLOURS[0])
        middle = sum(panel.get_xlim()) / 2
        for point in best:
            text = ", ".join(f"{name} {point[name]}" for name in settings)
            place = (number(point[low]), number(point[high]))
            side = (
                {"ha": "left", "xytext": (5, -9)}
                if place[0] < middle
                else {"ha": "right", "xytext": (-5, -9)}
            )
            panel.annotate(text, place, textcoords="offset points", fontsize=7, **side)
        panel.set(
            xlabel=f"{axis_label(low)} ({better[0]} is better)",
            ylabel=f"{axis_label(high)} ({better[1]} is better)",
        )
        entitle(figure, "Points that no other beats in both", of)
    return figure


def number(value: Any) -> float:
    """A cell of a table as a number; NaN for an empty one or another text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return nan


def _check(points: Sequence[Point], *names: str) -> None:
    if not points:
        raise UsageError("the study has no points")
    for name in names:
        if name not in points[0]:
            near = closest(name, points[0])
            settings = ", ".join(f"`{key}`" for key in takewhile(lambda key: key != "runs", points[0]))
            hint = f"its settings are {settings}" if near is None else f"did you mean `{near}`?"
            raise UsageError(f"the study has no column `{name}`; {hint}")
