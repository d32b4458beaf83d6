"""`serq init`: a first program, to be run and changed."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Final

import click

from serq.cli.options import FILE
from serq.errors import DataError, UsageError

_TEMPLATES: Final = Path(__file__).parents[1] / "templates"

KINDS: Final = {
    "vllm": "one vLLM engine, and the load that `vllm bench serve` would send to it",
    "step": "an engine of your own: token budget, KV cache and rules are written in the program",
    "ascend": "one vLLM engine on an Ascend NPU, with vllm-ascend's lanes for short prompts",
    "disaggregated": "prefill and decode on different engines, and the wire between them",
}
"""Kind -> what the program is; its text is the file of that name in `serq/templates`."""


_HELP: Final = (
    """Write a first program to FILE (deployment.sq), with comments: run it, then change it.

\b
"""
    + "\n".join(f"{kind.ljust(13)}  {what}" for kind, what in KINDS.items())
    + """

A file that exists is not overwritten.
"""
)


@click.command(help=_HELP)
@click.argument("file", type=FILE, default="deployment.sq")
@click.option("--kind", type=click.Choice(list(KINDS)), default="vllm", show_default=True)
def init(file: Path, kind: str) -> None:
    """Write the program of a kind to a new file, and say how to go on."""
    if file.suffix != ".sq":
        raise UsageError(f"{file}: the name of a program ends in .sq, such as deployment.sq")
    text = (_TEMPLATES / f"{kind}.sq").read_text("utf-8")
    try:
        with file.open("x", encoding="utf-8", newline="\n") as out:
            out.write(text.replace("FILE", quote(str(file))))
    except FileExistsError:
        raise UsageError(f"{file} exists already; name another file, or remove it") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None
    name = quote(str(file))
    click.echo(
        f"{file}: {KINDS[kind]}\n"
        f"\n"
        f"  serq run {name}     prints what happens\n"
        f"  serq test {name}    says whether what it expects is so\n"
        f"\n"
        f"Its first lines say what else to try; every `let` can be changed with --set."
    )
