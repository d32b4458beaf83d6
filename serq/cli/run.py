"""`serq run`: simulate a program and print its report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli.options import FILE, by_option, price_option, program_or_stdin, sets_option
from serq.errors import RunError, UsageError
from serq.profiling import Profile

if TYPE_CHECKING:
    from serq.api import EngineMode, Program
    from serq.results import Report
    from serq.results.groups import By
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
@program_or_stdin
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
    type=click.Choice(("auto", "fast", "planned", "reference")),
    default="auto",
    help="How vllm stages run: as fast as possible; or refused; planned on the clock; walked. Same results.",
)
@click.option("--reps", type=click.IntRange(1), default=1, help="Run with N seeds: means over the runs.")
@click.option("--jobs", type=int, help="Processes for --reps (default: one a core).")
@by_option
@price_option
@click.option("--profile", "profiled", is_flag=True, help="Say on stderr where the time went.")
def run(
    file: Path,
    sets: Mapping[str, str],
    engine: EngineMode,
    reps: int,
    jobs: int | None,
    seed: int | None,
    horizon: float | None,
    warmup: float | None,
    arrivals: int | None,
    trace: Path | None,
    price_per_hour: float | None,
    **output: Any,
) -> None:
    """Simulate FILE (.sq, .json for an IR file, - for either on standard input) and print what happened.

    A run that dies or is interrupted still prints and dumps what it recorded, and says so.
    """
    wanted = Output(**output)
    wanted.check()
    if jobs is not None and reps == 1:
        raise UsageError("--jobs is how many of the --reps run at once: give --reps 2 or more")
    if reps > 1:
        wanted.check_replicated()
    profile = Profile()
    with profile.phase("load"):
        from serq import api
    with profile.phase("compile"):
        program = api.compile(
            file,
            sets=sets,
            seed=seed,
            horizon=horizon,
            warmup=warmup,
            arrivals=arrivals,
            trace=trace,
            price_per_hour=price_per_hour,
        )
    wanted.check_of(program)
    if reps > 1:
        from serq.cli.replicated import run_replicated

        run_replicated(program, reps, engine, jobs, by=wanted.by, as_json=wanted.as_json)
    else:
        run_once(program, engine, wanted, profile)


@dataclass(frozen=True)
class Output:
    """What `serq run` prints and writes."""

    as_json: bool
    dump: Path | None
    steps: tuple[int, int] | None
    steps_of: str | None
    out: Path | None
    out_format: PartFormat | None
    overwrite: bool
    by: tuple[By, ...]
    profiled: bool

    @property
    def listed(self) -> tuple[int, int] | None:
        """The numbers of the first and the last step to list; None: no steps."""
        return EVERY_STEP if self.steps is None and self.steps_of is not None else self.steps

    def check(self) -> None:
        """Raise UsageError for options that do not go together."""
        if self.out is None and (self.out_format is not None or self.overwrite):
            raise UsageError("--out-format and --overwrite say how --out DIR is written: give it")
        if self.out is not None and self.listed is not None:
            raise UsageError(
                "a run folder does not keep what steps are made of: --out cannot go with --steps"
            )
        if self.listed is not None and self.as_json:
            raise UsageError("--json prints one object and nothing else: it cannot go with --steps")

    def check_replicated(self) -> None:
        """Raise UsageError for what is about a single run."""
        options = {"--dump": self.dump, "--steps": self.listed, "--out": self.out, "--profile": self.profiled}
        for name, value in options.items():
            if value:
                raise UsageError(f"{name} is about a single run: it cannot go with --reps")

    def check_of(self, program: Program) -> None:
        """Raise UsageError for what ``program`` has nothing of."""
        from serq.ir.nodes import Vllm

        if self.by and not any(isinstance(stage.kind, Vllm) for stage in program.ir.stages):
            raise UsageError(
                f"--by {self.by[0]} groups requests to `vllm` stages, and the program has no such stage"
            )

    def show(self, report: Report, profile: Profile) -> None:
        """Print the report and what else is wanted of it."""
        with profile.phase("report"):
            show_report(report, self.as_json, self.dump, self.by)
            list_steps(report, self.listed, self.steps_of)
        if self.profiled:
            click.echo(profile.text(report.records), err=True)


def run_once(program: Program, engine: EngineMode, wanted: Output, profile: Profile) -> None:
    """Run a program and show its report, even if the run dies. Raises RunError."""
    with profile.phase("load"):
        from serq import api
        from serq.cli.progress import showing_progress
        from serq.results.dump import make_folder
    if wanted.dump is not None:
        make_folder(wanted.dump)
    writer = None
    if wanted.out is not None:
        writer = api.open_run_folder(
            wanted.out, program, wanted.out_format or "parquet", overwrite=wanted.overwrite
        )
    keep_rows = wanted.listed is not None
    try:
        with showing_progress(program.ir.run.horizon) as progress:
            report = api.run(
                program, steps=keep_rows, progress=progress, profile=profile, out=writer, engine=engine
            )
    except RunError as error:
        if error.report is not None:
            wanted.show(error.report, profile)
        raise
    wanted.show(report, profile)


def list_steps(report: Report, steps: tuple[int, int] | None, stage: str | None) -> None:
    """Print the steps that were asked for, engine after engine."""
    if steps is not None:
        click.echo("\n" + report.list_steps(*steps, stage=stage))


def show_report(report: Report, as_json: bool, dump: Path | None, by: Sequence[By]) -> None:
    """Print the report and write its samples; where one of the two fails, the other is still done."""
    try:
        if dump is not None:
            report.dump(dump)
    finally:
        if as_json:
            for warning in report.warnings:
                click.echo(warning.render(), err=True)
        click.echo(report.to_json(by) if as_json else report.text(by))
