"""`serq run --reps N`: the program with N seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from serq.errors import RunError

if TYPE_CHECKING:
    from serq.api import EngineMode, Program
    from serq.results.groups import By


def run_replicated(
    program: Program,
    replications: int,
    engine: EngineMode,
    jobs: int | None,
    *,
    by: Sequence[By] = (),
    as_json: bool,
) -> None:
    """Run and print. Raises RunError if a run failed, after the others were printed."""
    from serq.cli.progress import watched_backend
    from serq.studies.replicate import replicate, replications_data, replications_text

    with watched_backend(-1 if jobs is None else jobs, "seeds") as backend:
        result = replicate(program, replications, engine=engine, by=by, backend=backend)
    for warning in result.warnings():
        click.echo(warning, err=True)
    if as_json:
        click.echo(json.dumps(replications_data(result), allow_nan=False, separators=(",", ":")))
    else:
        click.echo(replications_text(result))
    if result.failed:
        first = result.failed[0]
        raise RunError(
            f"{len(result.failed)} of {len(result.runs)} runs failed; seed {first.seed}: {first.failure}"
        )
