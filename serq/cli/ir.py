"""`serq ir`: print the IR of a program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from serq.cli.options import program_or_stdin, sets_option


@click.command()
@program_or_stdin
@sets_option
def ir(file: Path, sets: Mapping[str, str]) -> None:
    """Print the linked program FILE as an IR file, which `serq run` takes in place of the text."""
    from serq import api

    program = api.compile(file, sets=sets)
    for warning in program.warnings:
        click.echo(warning.render(), err=True)
    click.echo(program.to_json().rstrip("\n"))
