"""`serq test`: run programs and check what they expect of their runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from serq.cli.exits import FAILED
from serq.cli.options import FILE


@click.command()
@click.argument("paths", nargs=-1, required=True, type=FILE, metavar="FILE|DIR...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array, an element a file.")
def test(paths: Sequence[Path], as_json: bool) -> None:
    """Run each FILE as it is written and check its `expect`s; in a DIR every .sq file that has any.

    Exits with 1 where one does not hold, or a program does not compile or run; with 2 where nothing is
    expected anywhere.
    """
    from serq.testing import check_file, programs_in

    verdicts = []
    for file in programs_in(paths):
        verdict = check_file(file)
        verdicts.append(verdict)
        if not as_json:
            click.echo(verdict.render(), err=verdict.error is not None)
    outcomes = [outcome for verdict in verdicts for outcome in verdict.outcomes]
    if as_json:
        click.echo(json.dumps([verdict.to_json() for verdict in verdicts], ensure_ascii=False))
    elif outcomes:
        held = sum(outcome.holds is True for outcome in outcomes)
        failed = sum(verdict.error is not None for verdict in verdicts)
        also = f"; {failed} of them did not compile or run" if failed else ""
        click.echo(f"{held} of {len(outcomes)} expectations hold, in {len(verdicts)} file(s){also}")
    if any(verdict.failed for verdict in verdicts):
        sys.exit(FAILED)
    if not outcomes:
        raise click.UsageError("nothing is expected: no program has an `expect`")
