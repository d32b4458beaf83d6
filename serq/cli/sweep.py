"""`serq sweep`: a program at many settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli import completion
from serq.cli.exits import FAILED
from serq.cli.options import FILE, jobs_option, price_option, program_file, run_settings

if TYPE_CHECKING:
    from serq.studies.sweep import Watch
    from serq.studies.sweep_result import SweepResult

_SHOWN_FAILURES = 20


@click.command()
@program_file
@click.option(
    "--set",
    "axes",
    multiple=True,
    shell_complete=completion.lets,
    metavar="NAME=VALUES",
    help="A `let` and its values: 1,2,4 or 1:10:1 or 1:64:*2, with --random also 1..10. One value fixes it.",
)
@click.option("--reps", type=click.IntRange(1), default=1, show_default=True, help="Seeds at every point.")
@click.option("--random", "random_points", type=click.IntRange(1), metavar="N", help="Draw N points.")
@click.option("--design-seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of --random.")
@click.option("--out", type=FILE, required=True, metavar="DIR", help="Keep every result here; resumes.")
@click.option("--overwrite", is_flag=True, help="Drop what an earlier study left in DIR.")
@jobs_option
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster whose scheduler is here.")
@price_option
@run_settings
@click.option("--show", "shown", multiple=True, metavar="FIGURE", help="Figures to print, such as ttft.p99.")
def sweep(
    file: Path,
    axes: tuple[str, ...],
    reps: int,
    random_points: int | None,
    design_seed: int,
    out: Path,
    overwrite: bool,
    jobs: int,
    dask: str | None,
    shown: tuple[str, ...],
    **settings: Any,
) -> None:
    """Run FILE at every combination of settings and keep the figures in DIR.

    The same command again goes on where it was stopped or killed. DIR/points.csv has one row a point, with
    95 % intervals over the seeds; DIR/runs.csv one row a run.
    """
    from serq.studies.axes import parse_axis
    from serq.studies.backend import Backend
    from serq.studies.sweep import SweepPlan
    from serq.studies.sweep import sweep as run_sweep

    plan = SweepPlan(
        file,
        [parse_axis(text) for text in axes],
        replications=reps,
        random_points=random_points,
        design_seed=design_seed,
        settings={name: value for name, value in settings.items() if value is not None},
    )
    with _progress() as watch:
        result = run_sweep(plan, out, backend=Backend(jobs, dask), overwrite=overwrite, watch=watch)
    _show(result, out, [axis.name for axis in plan.axes], shown)


def _show(result: SweepResult, out: Path, axes: list[str], shown: tuple[str, ...]) -> None:
    """Print the points as a table, the failures, and where everything lies."""
    from serq.studies.exactness import EXACT
    from serq.studies.shown import figure_columns, points_text

    click.echo(points_text(result.points, axes, figure_columns(result.points, shown)))
    if result.exact:
        click.echo(f"\n{EXACT}")
    click.echo(f"\n{len(result.points)} points, {len(result.runs)} runs: {out}/points.csv, {out}/runs.csv")
    failures = result.failures
    if not failures:
        return
    click.echo(f"{len(failures)} runs failed ({out}/failures.csv):", err=True)
    for failure in failures[:_SHOWN_FAILURES]:
        where = ", ".join(f"{name}={failure[name]}" for name in axes) or "the program"
        click.echo(f"  {where}, seed {failure['seed']}: {failure['failure'].splitlines()[0]}", err=True)
    if len(failures) > _SHOWN_FAILURES:
        click.echo(f"  and {len(failures) - _SHOWN_FAILURES} more", err=True)
    sys.exit(FAILED)


@contextmanager
def _progress() -> Iterator[Watch | None]:
    """A bar with the time left, on a terminal; in a pipe nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("runs", total=None)

        def watch(done: int, total: int, failed: int) -> None:
            text = f"runs, {failed} failed" if failed else "runs"
            progress.update(bar, completed=done, total=total, description=text)

        yield watch
