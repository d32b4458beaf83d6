"""What a sweep gave: tables of points and runs, curves, and paired changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from serq import arguments
from serq.errors import UsageError
from serq.results.html import table_html
from serq.results.plots.studies import number
from serq.results.tables import Table
from serq.results.text import aligned
from serq.studies.shown import figure_columns, points_shown
from serq.studies.tables import change_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame, Series


@dataclass(frozen=True)
class SweepResult:
    """What a sweep gave: rows of :func:`run_table` and :func:`point_table`."""

    runs: list[dict[str, Any]]
    points: list[dict[str, Any]]
    settings: tuple[str, ...]
    """The names of the axes."""
    exact: bool = False
    """Whether one of several seeds was run at a point: the program draws nothing, and values are exact."""
    program: str = ""
    """The name of the program's file, for titles."""

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The runs that failed."""
        return [run for run in self.runs if run["failure"] is not None]

    def frame(self) -> DataFrame:
        """The points as a pandas DataFrame, settings as numbers where they are numbers."""
        import pandas

        return pandas.DataFrame(self.points).apply(_numbers)

    def show(self, *figures: str) -> DataFrame:
        """The points to read: these figures, each with its interval, by their names or the ends of them.

        Without any, latencies first. Raises UsageError for a name that no figure has, with the nearest.
        """
        import pandas

        table = self._table([_figure(name) for name in figures])
        return pandas.DataFrame(table.rows, columns=list(table.headings)).set_index("point")

    def plot(
        self, figure: str, *, x: str | None = None, by: str | None = None, limit: float | None = None
    ) -> Figure:
        """A figure over the setting ``x`` (the first axis), a line for every value of the setting ``by``.

        The second axis is ``by`` where nothing is said. ``limit`` draws an objective and marks where a line
        breaks it. Raises UsageError for a name that is none.
        """
        from serq.results.plots.studies import curve

        limit = None if limit is None else arguments.number("limit", limit)
        x = self.settings[0] if x is None else arguments.text("x", x, self.settings[0])
        others = [name for name in self.settings if name != x]
        (column,) = figure_columns(self.points, [_figure(figure)])[:1]
        by = by or (others[0] if others else None)
        return curve(self.points, x, column, by=by, limit=limit, of=self.program)

    def change(self, figure: str, setting: str, before: float | str, after: float | str) -> DataFrame:
        """How far a figure changes where a setting goes from one value to another, relative, by paired seeds.

        One row for each combination of the other settings: ``change`` is the mean, ``change.ci95`` the
        half-width of its 95 % interval. Raises UsageError for a name or a value that is none.
        """
        import pandas

        (column,) = figure_columns(self.points, [_figure(figure)])[:1]
        known = {point[setting] for point in self.points} if setting in self.settings else set()
        first, second = _same(before, known), _same(after, known)
        if first is None or second is None:
            told = ", ".join(f"`{value}`" for value in sorted(known)) or "no such setting"
            raise UsageError(f"`{setting}` is never {before} or never {after}: there is {told}")
        rows = change_table(self.runs, self.settings, column, setting, first, second)
        return pandas.DataFrame(rows)

    def _table(self, figures: Sequence[str] = ()) -> Table:
        return points_shown(self.points, self.settings, figure_columns(self.points, figures))

    def __repr__(self) -> str:
        return "\n".join(aligned(self._table()))

    def _repr_html_(self) -> str:
        return table_html(self._table())


def _figure(name: str) -> str:
    return arguments.text("figure", name, "ttft.p99")


def _numbers(column: Series[Any]) -> Series[Any]:
    """A column as numbers, where all of it are."""
    import pandas

    try:
        return pandas.to_numeric(column)
    except (TypeError, ValueError):
        return column


def _same(value: float | str, known: Collection[str]) -> str | None:
    """The text under which a study knows a value."""
    if str(value) in known:
        return str(value)
    return next((text for text in known if number(text) == number(value)), None)
