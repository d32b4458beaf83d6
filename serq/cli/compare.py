"""`serq compare`: what one change does, with the same clients on both sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli import completion
from serq.cli.options import FILE, jobs_option, parse_sets, price_option, run_settings, sets_option

if TYPE_CHECKING:
    from serq.results.groups import By


@click.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE, required=False)
@sets_option
@click.option(
    "--set-a",
    "sets_a",
    multiple=True,
    metavar="NAME=EXPR",
    callback=parse_sets,
    shell_complete=completion.lets,
    help="For A only.",
)
@click.option(
    "--set-b",
    "sets_b",
    multiple=True,
    metavar="NAME=EXPR",
    callback=parse_sets,
    shell_complete=completion.lets,
    help="For B only.",
)
@click.option("--slo", "slos", multiple=True, metavar="OBJECTIVE", help="As in `slo`: 'ttft p99 < 2'.")
@click.option("--reps", type=click.IntRange(1), default=5, show_default=True, help="Seeds, shared by both.")
@click.option(
    "--by",
    type=click.Choice(("class", "handle", "stage", "session", "turn")),
    help="Group matched requests by this.",
)
@click.option(
    "--metric",
    type=click.Choice(("ttft", "tpot", "e2e")),
    default="e2e",
    show_default=True,
    help="What the requests named changed in.",
)
@click.option("--shown", type=click.IntRange(1), default=5, show_default=True, help="Requests to name.")
@jobs_option
@price_option
@click.option("--price-per-hour-b", type=float, metavar="MONEY", help="The same of B, where it is another.")
@run_settings
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object, nothing else.")
@click.option("--plot", type=FILE, metavar="FILE", help="Draw the differences (.svg, .png, .pdf).")
def compare(
    a: Path,
    b: Path | None,
    sets: Mapping[str, str],
    sets_a: Mapping[str, str],
    sets_b: Mapping[str, str],
    slos: tuple[str, ...],
    reps: int,
    by: By | None,
    metric: str,
    shown: int,
    jobs: int,
    as_json: bool,
    plot: Path | None,
    price_per_hour_b: float | None,
    **settings: Any,
) -> None:
    """Compare program B with program A, or A with itself under --set-a and --set-b.

    Both see the same clients with every seed; differences are B less A, with 95 % intervals over the seeds.
    """
    from serq.cli.progress import watched_backend
    from serq.studies.compare import ComparePlan
    from serq.studies.compare import compare as run_both
    from serq.studies.compare_text import changes, compare_data, compare_text

    given = {name: value for name, value in settings.items() if value is not None}
    plan = ComparePlan(a, b, sets, sets_a, sets_b, slos, reps, by, metric, shown, given, price_per_hour_b)
    with watched_backend(jobs, "seeds, of both programs") as backend:
        result = run_both(plan, backend=backend)
    click.echo(json.dumps(compare_data(result), allow_nan=False) if as_json else compare_text(result))
    if plot is not None:
        from serq.results.plots.comparison import comparison
        from serq.results.plots.style import save

        save(comparison(changes(result), plan.names), plot)
