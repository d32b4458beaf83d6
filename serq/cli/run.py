"""`serq run`: simulate a program and print its report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from serq.cli.options import FILE, program_file, sets_option
from serq.errors import RunError, UsageError
from serq.profiling import Profile

if TYPE_CHECKING:
    from serq.api import EngineMode
    from serq.results import Report
    from serq.results.run_folder import PartFormat

EVERY_STEP = (1, 2**63)


def step_range(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """`N..M`, `N..`, `..M` or `N`: the numbers of the first and the last step, from 1."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d*)(\.\.)?(\d*)", value)
    if found is None or not value.strip("."):
        raise click.BadParameter(
            f"`{value}` is no range of steps: write N..M, N.., ..M or N (FILE comes first)"
        )
    low, dots, high = found.groups()
    first = int(low) if low else 1
    last = int(high) if high else (EVERY_STEP[1] if dots else first)
    if not 1 <= first <= last:
        raise click.BadParameter(f"`{value}`: steps are numbered from 1: write N..M, not more than M for N")
    return first, last


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
@click.option(
    "--steps",
    is_flag=False,
    flag_value="1..",
    metavar="[N..M]",
    callback=step_range,
    help="List the steps of vllm stages, or those numbered N to M, as they lie on the device.",
)
@click.option("--steps-of", metavar="STAGE", help="List the steps of this stage, or of this member of one.")
@click.option("--out", type=FILE, metavar="DIR", help="Keep the run in DIR while it goes on (read_run).")
@click.option("--out-format", type=click.Choice(("parquet", "csv")), help="Files in DIR (default: parquet).")
@click.option("--overwrite", is_flag=True, help="Replace the run that DIR holds.")
@click.option(
    "--engine",
    type=click.Choice(("auto", "fast", "reference")),
    default="auto",
    help="How vllm stages run: planned ahead where possible, always (or refused), never. Same results.",
)
@click.option("--profile", "profiled", is_flag=True, help="Say on stderr where the time went.")
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
    steps: tuple[int, int] | None,
    steps_of: str | None,
    out: Path | None,
    out_format: PartFormat | None,
    overwrite: bool,
    engine: EngineMode,
    profiled: bool,
) -> None:
    """Simulate FILE (.sq, or .json for an IR file) and print what happened.

    A run that dies or is interrupted still prints and dumps what it recorded, and says so.
    """
    _check_out(out, out_format, overwrite, lists_steps=steps is not None or steps_of is not None)
    if steps_of is not None and steps is None:
        steps = EVERY_STEP
    if steps is not None and as_json:
        raise UsageError("--json prints one object and nothing else: it cannot go with --steps")
    profile = Profile()
    with profile.phase("load"):
        from serq import api
        from serq.cli.progress import showing_progress
        from serq.results.dump import make_folder
    with profile.phase("compile"):
        program = api.compile(
            file, sets=sets, seed=seed, horizon=horizon, warmup=warmup, arrivals=arrivals, trace=trace
        )

    def show(report: Report) -> None:
        with profile.phase("report"):
            show_report(report, as_json, dump)
            list_steps(report, steps, steps_of)
        if profiled:
            click.echo(profile.text(report.records), err=True)

    if dump is not None:
        make_folder(dump)
    writer = None
    if out is not None:
        writer = api.open_run_folder(out, program, out_format or "parquet", overwrite=overwrite)
    try:
        with showing_progress(program.ir.run.horizon) as progress:
            report = api.run(
                program, steps=steps is not None, progress=progress, profile=profile, out=writer,
                engine=engine,
            )  # fmt: skip
    except RunError as error:
        if error.report is not None:
            show(error.report)
        raise
    show(report)


def _check_out(
    out: Path | None, out_format: PartFormat | None, overwrite: bool, *, lists_steps: bool
) -> None:
    """Raise UsageError for options of a run folder that do not go together."""
    if out is None and (out_format is not None or overwrite):
        raise UsageError("--out-format and --overwrite say how --out DIR is written: give it")
    if out is not None and lists_steps:
        raise UsageError("a run folder does not keep what steps are made of: --out cannot go with --steps")


def list_steps(report: Report, steps: tuple[int, int] | None, stage: str | None) -> None:
    """Print the steps that were asked for, engine after engine."""
    if steps is not None:
        click.echo("\n" + report.list_steps(*steps, stage=stage))


def show_report(report: Report, as_json: bool, dump: Path | None) -> None:
    """Print the report and write its samples; where one of the two fails, the other is still done."""
    try:
        if dump is not None:
            report.dump(dump)
    finally:
        if as_json:
            for warning in report.warnings:
                click.echo(warning.render(), err=True)
        click.echo(report.to_json() if as_json else repr(report))
