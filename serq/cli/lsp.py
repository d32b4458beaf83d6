"""`serq lsp`: the language server, for editors."""

from __future__ import annotations

from importlib.util import find_spec

import click

from serq.errors import UsageError


@click.command()
def lsp() -> None:
    """Answer an editor on standard input and output: mistakes, hover, go to definition."""
    if find_spec("pygls") is None:
        raise UsageError("the language server needs pygls: pip install 'serq[lsp]'")
    from serq.tools.language_server import make_server

    make_server().start_io()
