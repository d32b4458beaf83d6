"""`serq report`: a run as one page of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli.options import FILE, PROGRAM, by_option, running
from serq.errors import UsageError

if TYPE_CHECKING:
    from serq.results.groups import By


@click.command()
@click.argument("source", type=PROGRAM)
@click.option("-o", "--out", type=FILE, required=True, metavar="FILE", help="The page, such as report.html.")
@by_option
@running
def report(source: Path, out: Path, by: tuple[By, ...], sets: Mapping[str, str], **settings: Any) -> None:
    """Write SOURCE as a page to read and to hand on: a program, which is run, or the folder of a run.

    The answer stands on top: objectives kept and missed, throughput, latencies, what held it back. The page
    needs no other file and no script.
    """
    from serq.cli.source import report_of
    from serq.results.page import as_page
    from serq.results.whole_files import write_whole

    found = report_of(source, sets, settings)
    if by and not found.records.engines:
        raise UsageError(f"--by {by[0]} groups requests to `vllm` stages, and the run has no such stage")
    write_whole(out, as_page(found, source.name, by))
    click.echo(out)
