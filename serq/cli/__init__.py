"""The command ``serq``: thin wrappers around the library, each in a module of its own."""

from __future__ import annotations

import click

from serq import __version__
from serq.cli.calibrate import calibrate
from serq.cli.capacity import capacity
from serq.cli.check import check
from serq.cli.compare import compare
from serq.cli.draw import draw
from serq.cli.exits import ExitingGroup
from serq.cli.explain import explain
from serq.cli.fmt import fmt
from serq.cli.init import init
from serq.cli.ir import ir
from serq.cli.lsp import lsp
from serq.cli.memory import memory
from serq.cli.pictures import plot, timeline
from serq.cli.report import report
from serq.cli.run import run
from serq.cli.sweep import sweep
from serq.cli.test import test
from serq.cli.trace import trace
from serq.cli.tune import tune
from serq.cli.validate import validate
from serq.cli.vllm_args import vllm_args
from serq.compiled import is_compiled
from serq.oracle.commands import oracle


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"serq, version {__version__}{', compiled' if is_compiled() else ''}")
        context.exit()


@click.group(cls=ExitingGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version,
              help="Show the version, and whether this is a compiled wheel, and exit.")  # fmt: skip
def main() -> None:
    """Run LLM serving deployments written as short programs (.sq)."""


COMMANDS = (
    init,
    run,
    compare,
    sweep,
    capacity,
    tune,
    report,
    plot,
    timeline,
    draw,
    test,
    explain,
    check,
    ir,
    fmt,
    trace,
    vllm_args,
    memory,
    calibrate,
    validate,
    oracle,
    lsp,
)

for command in COMMANDS:
    main.add_command(command)
