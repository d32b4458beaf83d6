"""`serq report`: a run as one page of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli.options import FILE, PROGRAM, by_option, price_option, running
from serq.errors import UsageError

if TYPE_CHECKING:
    from serq.results.groups import By


@click.command()
@click.argument("source", type=PROGRAM)
@click.option("-o", "--out", type=FILE, required=True, metavar="FILE", help="The page, such as report.html.")
@by_option
@price_option
@running
def report(
    source: Path,
    out: Path,
    by: tuple[By, ...],
    price_per_hour: float | None,
    sets: Mapping[str, str],
    **settings: Any,
) -> None:
    """Write SOURCE as a page to read and to hand on: a program, which is run, or the folder of a run.

    The answer stands on top: objectives kept and missed, throughput, latencies, what held it back. The page
    needs no other file and no script.
    """
    from serq.cli.source import report_of
    from serq.results.money import checked_price
    from serq.results.page import as_page
    from serq.results.whole_files import write_whole

    if not source.is_dir():
        settings["price_per_hour"] = price_per_hour
    found = report_of(source, sets, settings)
    if source.is_dir() and price_per_hour is not None and found.program is not None:
        found.price_per_hour = checked_price(found.program, price_per_hour)
    if by and not found.records.engines:
        raise UsageError(f"--by {by[0]} groups requests to `vllm` stages, and the run has no such stage")
    write_whole(out, as_page(found, source.name, by))
    click.echo(out)
