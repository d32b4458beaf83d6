"""`serq validate`: a measured run against the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from serq.cli.options import FILE

_COUNT = click.IntRange(1)
_POSITIVE = click.FloatRange(0, min_open=True)


@click.command()
@click.argument("run", type=FILE)
@click.option("--tables", type=FILE, required=True, metavar="DIR", help="Operator tables of the device.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object, nothing else.")
@click.option("--plot", type=FILE, metavar="DIR", help="Draw measured and predicted into DIR.")
@click.option(
    "--prefixes", type=FILE, metavar="FILE", help="Prompts that begin alike: request,earlier,tokens."
)
@click.option("--model", metavar="NAME", help="The model, where the run does not say.")
@click.option(
    "--model-config", type=FILE, metavar="FILE", help="Its config.json, where the name is not known."
)
@click.option("--tensor-parallel-size", type=_COUNT)
@click.option("--data-parallel-size", type=_COUNT)
@click.option("--enable-expert-parallel/--no-enable-expert-parallel", default=None)
@click.option("--max-num-seqs", type=_COUNT)
@click.option("--max-num-batched-tokens", type=_COUNT)
@click.option("--max-model-len", type=_COUNT)
@click.option("--num-gpu-blocks", type=_COUNT, help="KV blocks of one engine.")
@click.option("--block-size", type=_COUNT)
@click.option("--enable-prefix-caching/--no-enable-prefix-caching", default=None)
@click.option("--async-scheduling/--no-async-scheduling", default=None)
@click.option("--enforce-eager/--no-enforce-eager", default=None, help="Whether no graph was captured.")
@click.option(
    "--link", "link_bandwidth", type=_POSITIVE, metavar="B/S", help="Bytes a second between devices."
)
@click.option(
    "--link-latency", type=click.FloatRange(0), metavar="S", help="Seconds of a phase of a collective."
)
@click.option(
    "--ep-bytes",
    "expert_bytes",
    type=click.FloatRange(0),
    metavar="SHARE",
    help="Share of their bytes that the collectives of experts are charged with.",
)
def validate(run: Path, tables: Path, as_json: bool, plot: Path | None, **given: Any) -> None:
    """Replay RUN, its steps priced from measured operator tables, and print how far the prediction is off.

    RUN is a folder with requests.jsonl and meta.json, or the result of `vllm bench serve --save-detailed`.
    Options replace what the run states.
    """
    from serq.validation.validate import validate as compare_run

    report = compare_run(run, tables, given)
    if plot is not None:
        for path in report.plot(plot):
            click.echo(f"drawn: {path}", err=True)
    click.echo(report.to_json() if as_json else str(report))
