"""One look for every figure: colours that colour-blind readers tell apart, sizes for a notebook page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from serq.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""The palette of Okabe and Ito (2008)."""

MARKERS: Final = "os^Dv<>p"
WIDTH: Final = 7.5
"""Inches: a notebook cell at 100 dots an inch."""

_SETTINGS: Final[dict[str, Any]] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "svg.hashsalt": "serq",
    "svg.fonttype": "none",
}


@contextmanager
def styled() -> Iterator[None]:
    """Inside, figures have this look; matplotlib's own settings come back afterwards."""
    import matplotlib
    from cycler import cycler

    settings: Any = {**_SETTINGS, "axes.prop_cycle": cycler(color=COLOURS)}
    with matplotlib.rc_context(settings):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, height: float = 3.4, **keywords: Any
) -> tuple[Figure, Any]:
    """A figure and its axes, always as a list of rows. It belongs to no window and no global state."""
    from serq.results.plots.notebook_figure import NotebookFigure

    figure = NotebookFigure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **keywords)


def entitle(figure: Figure, shows: str, of: str) -> None:
    """The title of a figure: what it shows and, where that is known, of which program or run."""
    figure.suptitle(f"{shows}: {of}" if of else shows, x=0.01, ha="left", fontsize=10, fontweight="bold")


def legend(axes: Axes, **keywords: Any) -> None:
    """A legend, where there is more than one thing to tell apart."""
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(**keywords)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure (.svg, .png, .pdf), the same bytes each time. Raises DataError."""
    path = Path(path)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    try:
        with styled():
            figure.savefig(path, dpi=150, metadata=metadata)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}: cannot be written ({reason})") from None
    return path
