"""`serq fmt`: rewrite programs in the usual form."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from serq.cli.exits import FAILED
from serq.cli.options import FILE
from serq.errors import DataError, SerqError


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option(
    "--check", is_flag=True, help="Change nothing; name the files that would change, and exit with 1."
)
def fmt(files: Sequence[Path], check: bool) -> None:
    """Format each FILE in place. What a program means does not change, byte for byte of its IR."""
    failed = False
    for file in files:
        try:
            changed = _format(file, check)
        except SerqError as error:
            click.echo(f"error: {error}", err=True)
            failed = True
            continue
        if changed:
            click.echo(f"{file}: {'would be formatted' if check else 'formatted'}")
        failed = failed or (changed and check)
    if failed:
        sys.exit(FAILED)


def _format(file: Path, check: bool) -> bool:
    """Whether the file was (or would be) changed."""
    from serq.grammar.printer import format_source
    from serq.source import SourceFile, read_text

    text = read_text(file, "program")
    formatted = format_source(SourceFile(str(file), text))
    if formatted == text:
        return False
    if not check:
        _replace(file.resolve(), formatted)
    return True


def _replace(file: Path, text: str) -> None:
    """Put ``text`` in the place of a file in one step, so that no reader and no crash meets half of it."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_text(text, "utf-8", newline="")
        draft.chmod(file.stat().st_mode & 0o777)
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None
