"""`serq plot` and `serq timeline`: a run or a study as pictures, a run for Perfetto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli import completion
from serq.cli.options import FILE, PROGRAM, running
from serq.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@click.command()
@click.argument("source", type=PROGRAM)
@click.option("-o", "--out", type=FILE, required=True, metavar="DIR", help="Where the pictures go.")
@click.option(
    "--figure",
    "names",
    multiple=True,
    shell_complete=completion.figures,
    help="Draw this one only; may be repeated.",
)
@click.option(
    "--format", "suffix", type=click.Choice(["png", "svg", "pdf"]), default="png", show_default=True
)
@click.option("--x", help="Of a study: the setting along the axis.")
@click.option("--by", help="Of a study: the setting that makes the lines, or the other axis.")
@click.option("--y", "ys", multiple=True, help="Of a study: a figure; two of them draw a Pareto front.")
@click.option("--limit", type=float, help="Of a study: an objective, drawn as a line.")
@running
def plot(
    source: Path,
    out: Path,
    names: tuple[str, ...],
    suffix: str,
    x: str | None,
    by: str | None,
    ys: tuple[str, ...],
    limit: float | None,
    sets: Mapping[str, str],
    **settings: Any,
) -> None:
    """Draw SOURCE: a program, which is run, or the folder of a run or a study (`serq run` and `sweep --out`).

    A run gives latency, timeline, lanes, composition and budget. A study gives each figure (--y) over its
    first setting (--x) with a line for each value of another (--by), and a heat map over both.
    """
    from serq.results.dump import make_folder
    from serq.results.plots.style import save

    if (source / "study.json").is_file():
        figures = _of_study(source, x, by, ys, limit)
    else:
        if x or by or ys or limit is not None:
            raise UsageError(f"--x, --by, --y and --limit are about studies, and {source} is none")
        figures = _of_run(source, names, sets, settings)
    wanted = {name: figure for name, figure in figures.items() if not names or name in names}
    unknown = [name for name in names if name not in figures]
    if unknown:
        raise UsageError(f"no figure `{unknown[0]}`; there are {', '.join(figures)}")
    folder = make_folder(out)
    for name, figure in wanted.items():
        click.echo(save(figure, folder / f"{name}.{suffix}"))


def _of_run(
    source: Path, names: Sequence[str], sets: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, Figure]:
    """The figures of a run: those that are wanted, or all that the run has something for."""
    from serq.cli.source import report_of
    from serq.results.plots import FIGURES

    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise UsageError(f"no figure `{unknown[0]}`; there are {', '.join(FIGURES)}")
    records = report_of(source, sets, settings, steps=True).whole_records()
    figures: dict[str, Figure] = {}
    for name in names or FIGURES:
        draw = FIGURES[name]
        try:
            figures[name] = draw(records, source.name)
        except UsageError:
            if names:
                raise
    if not figures:
        raise UsageError(f"{source}: the run leaves nothing to draw")
    return figures


def _of_study(
    folder: Path, x: str | None, by: str | None, ys: Sequence[str], limit: float | None
) -> dict[str, Figure]:
    """A curve and, with two settings, a heat map of every figure; a Pareto front of two figures."""
    from serq.results.plots import studies
    from serq.results.plots.labels import more_is_better
    from serq.studies.folder import StudyFolder
    from serq.studies.shown import figure_columns
    from serq.studies.tables import point_table

    study = StudyFolder(folder)
    points = point_table(study.runs())
    described = study.description()
    axes, of = list(described["axes"]), Path(described["program"]).name
    x = x or (axes[0] if axes else None)
    if x is None or not points:
        raise UsageError(f"{folder}: a study without a setting or without runs has nothing to draw over")
    by = by or next((axis for axis in axes if axis != x), None)
    columns = figure_columns(points, ys)
    figures: dict[str, Figure] = {}
    for column in columns:
        figures[column] = studies.curve(points, x, column, by=by, limit=limit, of=of)
        if by is not None:
            figures[f"{column}.map"] = studies.heat_map(points, x, by, column, of=of)
    if len(ys) == 2 and len(columns) == 2:
        one, other = ("more" if more_is_better(column) else "less" for column in columns)
        figures["pareto"] = studies.pareto(points, columns[0], columns[1], axes, (one, other), of)
    return figures


@click.command()
@click.argument("source", type=PROGRAM)
@click.option("-o", "--out", type=FILE, required=True, metavar="FILE", help="The trace, such as run.json.")
@running
def timeline(source: Path, out: Path, sets: Mapping[str, str], **settings: Any) -> None:
    """Write the steps, requests, queues and memory of SOURCE for ui.perfetto.dev (Chrome trace).

    SOURCE is a program, which is run, or the folder of a run (`serq run --out`).
    """
    from serq.cli.source import report_of
    from serq.results.chrome_trace import write_chrome_trace

    click.echo(write_chrome_trace(report_of(source, sets, settings).whole_records(), out))
