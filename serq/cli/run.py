"""`serq run`: simulate a program and print its report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serq.cli.options import FILE, program_file, sets_option
from serq.errors import RunError

if TYPE_CHECKING:
    from serq.results import Report


@click.command()
@program_file
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Seed of all random draws.")
@click.option("--horizon", type=float, metavar="T", help="Model time at which the run ends.")
@click.option("--warmup", type=float, metavar="T", help="Model time at which statistics begin.")
@click.option("--arrivals", type=int, metavar="N", help="Stop arrivals after N, and end when all have ended.")
@sets_option
@click.option("--trace", type=FILE, metavar="FILE", help="Replay this trace.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object, nothing else.")
@click.option("--dump", type=FILE, metavar="DIR", help="Write every sample as CSV.")
def run(
    file: Path,
    seed: int | None,
    horizon: float | None,
    warmup: float | None,
    arrivals: int | None,
    sets: Mapping[str, str],
    trace: Path | None,
    as_json: bool,
    dump: Path | None,
) -> None:
    """Simulate FILE (.sq, or .json for an IR file) and print what happened.

    A run that dies or is interrupted still prints and dumps what it recorded, and says so.
    """
    from serq import api
    from serq.cli.progress import showing_progress
    from serq.results import Report
    from serq.results.dump import make_folder

    program = api.compile(
        file, sets=sets, seed=seed, horizon=horizon, warmup=warmup, arrivals=arrivals, trace=trace
    )
    if dump is not None:
        make_folder(dump)
    try:
        with showing_progress(program.ir.run.horizon) as progress:
            report = api.run(program, progress=progress)
    except RunError as error:
        if error.records is not None:
            show(Report(error.records, program.warnings), as_json, dump)
        raise
    show(report, as_json, dump)


def show(report: Report, as_json: bool, dump: Path | None) -> None:
    """Print the report and write its samples; where one of the two fails, the other is still done."""
    try:
        if dump is not None:
            report.dump(dump)
    finally:
        if as_json:
            for warning in report.warnings:
                click.echo(warning.render(), err=True)
        click.echo(report.to_json() if as_json else repr(report))
