"""`serq capacity`: how much load a deployment takes before an objective breaks."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli.exits import FAILED
from serq.cli.options import jobs_option, price_option, program_file, run_settings, sets_option

if TYPE_CHECKING:
    from serq.studies.capacity import Capacity


@click.command()
@program_file
@click.option("--over", metavar="LET", help="The `let` that scales the load (without it: which there are).")
@click.option("--slo", "slos", multiple=True, metavar="OBJECTIVE", help="As in `slo`: 'ttft p99 < 2'.")
@click.option("--start", type=float, default=1.0, show_default=True, help="The first load tried.")
@click.option("--lowest", type=float, help="No load below this is tried.")
@click.option("--highest", type=float, help="No load above this is tried.")
@click.option("--reps", type=click.IntRange(1), default=5, show_default=True, help="Seeds, each searched.")
@click.option("--tolerance", type=float, default=0.01, show_default=True, help="Relative width at the end.")
@jobs_option
@sets_option
@price_option
@run_settings
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object, nothing else.")
def capacity(
    file: Path,
    over: str | None,
    slos: tuple[str, ...],
    start: float,
    lowest: float | None,
    highest: float | None,
    reps: int,
    tolerance: float,
    jobs: int,
    sets: Mapping[str, str],
    as_json: bool,
    **settings: Any,
) -> None:
    """Find the highest load at which FILE keeps its objectives, and say what breaks beyond.

    Exit code 1 where no load keeps them: the nearest is named.
    """
    from serq.cli.progress import watched_backend
    from serq.studies.capacity import CapacityPlan, nothing_to_vary
    from serq.studies.capacity import capacity as find_capacity
    from serq.studies.capacity_text import capacity_text

    given = {name: value for name, value in settings.items() if value is not None}
    if over is None:
        raise nothing_to_vary(file, sets, given)
    plan = CapacityPlan(
        file,
        over,
        start,
        slos=slos,
        lowest=lowest,
        highest=highest,
        replications=reps,
        tolerance=tolerance,
        sets=sets,
        settings=given,
    )
    with watched_backend(jobs, "seeds searched") as backend:
        result = find_capacity(plan, backend=backend)
    click.echo(json.dumps(_plain(result), allow_nan=False) if as_json else capacity_text(result))
    if not result.reachable:
        sys.exit(FAILED)


def _plain(result: Capacity) -> dict[str, Any]:
    load, half_width = result.load
    return {
        "over": result.plan.over,
        "load": load,
        "ci95": half_width,
        "exact": result.exact,
        "reachable": result.reachable,
        "bounded": result.bounded,
        **_money(result),
        "seeds": [
            {
                "seed": search.seed,
                "holds": search.bounds.holds,
                "breaks": search.bounds.breaks,
                "runs": [
                    {"load": p.load, "met": p.met, "objectives": [_row(asdict(row)) for row in p.objectives]}
                    for p in search.probes
                ],
            }
            for search in result.searches
        ],
    }


def _money(result: Capacity) -> dict[str, Any]:
    """Money per million output tokens at the load that holds, where a price is given."""
    if result.plan.settings.get("price_per_hour") is None:
        return {}
    mean, half_width = result.per_million_output_tokens
    return {"per_million_output_tokens": {"mean": mean, "ci95": half_width}}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a row, null for what is not finite."""
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in row.items()}
