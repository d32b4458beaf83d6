"""`serq vllm-args`: a vLLM command line as a stage of a program."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence

import click

from serq.cli.exits import FAILED


@click.command("vllm-args", context_settings={"ignore_unknown_options": True})
@click.argument("words", metavar="COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", default="engine", show_default=True, help="The name of the stage.")
def vllm_args(words: Sequence[str], name: str) -> None:
    """Print the `vllm` stage that COMMAND, a `vllm serve …` line, configures; quotes around it are optional.

    What cannot change the scheduling is left out with a note. Exits with 1, naming each option, where one
    cannot be honoured.
    """
    from serq.grammar.vllm_command import stage_of_command

    if re.fullmatch(r"[^\W\d]\w*", name) is None:
        raise click.BadParameter(
            f"{name!r} is no name: a letter or `_`, then letters, digits and `_`", param_hint="'--name'"
        )
    text = stage_of_command(words[0] if len(words) == 1 else shlex.join(words))
    for refusal in text.refusals:
        click.echo(f"error: {refusal}", err=True)
    if text.refusals:
        sys.exit(FAILED)
    click.echo(text.render(name))
