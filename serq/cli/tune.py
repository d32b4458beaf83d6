"""`serq tune`: engine options for a workload."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from serq.cli.exits import FAILED
from serq.cli.options import jobs_option, program_file, run_settings, sets_option
from serq.errors import UsageError


@click.command()
@program_file
@click.option("--try", "tried", multiple=True, metavar="OPTION=VALUES", help="Values of an engine option.")
@click.option("--stage", metavar="NAME", help="The stage to tune; all `vllm` stages if not given.")
@click.option("--slo", "slos", multiple=True, metavar="OBJECTIVE", help="As in `slo`: 'ttft p99 < 2'.")
@click.option("--reps", type=click.IntRange(1), default=3, show_default=True, help="Seeds, shared by all.")
@click.option("--within", type=float, default=0.01, show_default=True, help="Share of goodput to give away.")
@jobs_option
@sets_option
@run_settings
def tune(
    file: Path,
    tried: tuple[str, ...],
    stage: str | None,
    slos: tuple[str, ...],
    reps: int,
    within: float,
    jobs: int,
    sets: Mapping[str, str],
    **settings: Any,
) -> None:
    """Propose options for FILE's engines: the fewest changes from vLLM's defaults near the best goodput.

    Prints the `vllm serve` command line. Exit code 1 where no configuration keeps the objectives: the nearest
    is named.
    """
    from serq.cli.progress import watched_backend
    from serq.studies.tune import CANDIDATES, TunePlan
    from serq.studies.tune import tune as find_options
    from serq.studies.tune_text import tune_text

    plan = TunePlan(
        file,
        dict(map(_candidates, tried)) or CANDIDATES,
        stage,
        slos,
        reps,
        within,
        sets,
        {name: value for name, value in settings.items() if value is not None},
    )
    with watched_backend(jobs, "configurations") as backend:
        result = find_options(plan, backend=backend)
    click.echo(tune_text(result))
    if result.chosen is None:
        sys.exit(FAILED)


def _candidates(text: str) -> tuple[str, list[int | float | bool]]:
    """The option and the values of ``OPTION=VALUES``, written as the axes of a sweep are."""
    from serq.studies.axes import Between, parse_axis

    axis = parse_axis(text)
    if isinstance(axis, Between):
        raise UsageError(f"`{text}`: give single values, or a step")
    return axis.name, [_value(axis.name, value) for value in axis.values]


def _value(name: str, text: str) -> int | float | bool:
    if text in ("true", "false"):
        return text == "true"
    try:
        number = float(text)
    except ValueError:
        raise UsageError(f"`{name}`: {text} is neither a number nor true or false") from None
    return int(number) if number.is_integer() else number
