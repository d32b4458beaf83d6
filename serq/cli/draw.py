"""`serq draw`: the deployment of a program as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from serq.cli.options import FILE, program_or_stdin, sets_option


@click.command()
@program_or_stdin
@click.option("-o", "--out", type=FILE, metavar="FILE", help="The SVG file; without it, standard output.")
@sets_option
def draw(file: Path, out: Path | None, sets: Mapping[str, str]) -> None:
    """Draw FILE's deployment as SVG: stages in the order of a session's visits, pools, transfers."""
    from serq import api
    from serq.errors import DataError
    from serq.results.drawing import as_svg, diagram

    text = as_svg(diagram(api.compile(file, sets=sets).ir), title=file.name)
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, "utf-8")
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({error.strerror})") from None
    click.echo(out)
