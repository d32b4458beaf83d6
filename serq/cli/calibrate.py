"""`serq calibrate`: plan measurements, make them, fit the roofline to them, take over those of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli.options import FILE
from serq.errors import UsageError

if TYPE_CHECKING:
    from serq.kernels.calibration.fit import Errors, FittedGroup
    from serq.kernels.calibration.importing import ImportedTable
    from serq.kernels.tables.sidecar import Provenance

_COUNT = click.IntRange(min=1)


@click.group()
def calibrate() -> None:
    """Measure what steps cost, and fit the roofline to it."""


@calibrate.command()
@click.argument("model")
@click.argument("folder", type=FILE)
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, or an Ascend device.")
@click.option("--tp", "tensor_parallel_size", type=_COUNT, default=1, show_default=True)
@click.option("--dtype", type=click.Choice(["bfloat16", "float16", "float32"]), default="bfloat16")
@click.option("--kv-cache-dtype", type=click.Choice(["auto", "int8"]), default="auto", show_default=True)
@click.option("--attention", type=click.Choice(["mixed", "split"]), help="One attention call or two.")
@click.option("--max-num-batched-tokens", type=_COUNT, default=2048, show_default=True)
@click.option("--max-num-seqs", type=_COUNT, default=128, show_default=True)
@click.option("--max-model-len", type=_COUNT, default=8192, show_default=True)
@click.option("--spacing", type=float, default=4.0, show_default=True, help="How far apart sizes lie.")
@click.option("--warmup", type=click.IntRange(min=0), help="Runs before an operator is timed.")
@click.option("--repeats", type=_COUNT, help="Timed runs, of which the median counts.")
def plan(folder: Path, device: str, spacing: float, **given: Any) -> None:
    """Put into FOLDER which points of MODEL are worth measuring on a device.

    Sizes lie --spacing times apart, up to the limits of the engine. `serq calibrate run FOLDER` measures
    them.
    """
    from serq.kernels.calibration.plan import Target, make_plan, write_plan

    made = make_plan(Target(device=device, **given), spacing)
    write_plan(made, folder)
    for table in made.tables:
        click.echo(f"{table.name:26} {len(table.points):4}  over {', '.join(table.axes)}")
    click.echo(f"{'all':26} {made.size:4}  in {folder}/plan.json")


@calibrate.command()
@click.argument("folder", type=FILE)
def run(folder: Path) -> None:
    """Measure the points of the plan in FOLDER, and write its tables.

    May be stopped or killed: every finished point is kept, and the same command goes on.
    """
    from serq.cli.progress import counted
    from serq.kernels.calibration.measure import measure
    from serq.kernels.calibration.plan import read_plan

    made = read_plan(folder)
    with counted("points") as watch:
        fresh = measure(made, folder, watch)
    click.echo(f"{made.size} points in {folder}, {fresh} of them measured now")


@calibrate.command()
@click.argument("folder", type=FILE)
@click.option("--device", required=True, help="The device of the catalogue whose roofline is fitted.")
@click.option("--model", help="Default: the one that was measured.")
@click.option("--peak-operations", type=float, help="Operations a second, instead of the catalogue's.")
@click.option("--memory-bandwidth", type=float, help="Bytes a second, instead of the catalogue's.")
@click.option("--kernel-overhead", type=float, help="Seconds of a call beside its work.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def fit(folder: Path, device: str, model: str | None, as_json: bool, **figures: float | None) -> None:
    """Fit the efficiencies of a roofline to the tables in FOLDER; write FOLDER/calibration.toml.

    The errors are those of times that were held out: the fit was made without them.
    """
    from serq.kernels.calibration.fit import calibration_toml
    from serq.kernels.calibration.fit import fit as fit_tables

    options: dict[str, Any] = {name: value for name, value in figures.items() if value is not None}
    options |= {"device": device, **_measured(folder, model)}
    groups, provenance = fit_tables(folder, options)
    path = folder / "calibration.toml"
    path.write_text(calibration_toml(groups, provenance), encoding="utf-8")
    click.echo(json.dumps(_plain(groups)) if as_json else _text(groups))
    if not as_json:
        click.echo(f'\nwritten: {path}; in a roofline: calibration "{path}";')
        for name in figures.keys() & options.keys():
            click.echo(f"  with {name} {options[name]:g};, as fitted")


def _measured(folder: Path, model: str | None) -> dict[str, Any]:
    """Model and shard as the tables say; what is said on the command line counts."""
    from serq.kernels.tables.factory import read_tables

    dimensions = read_tables(folder)[0].sidecar.dimensions
    name = model or dimensions.get("model")
    if name is None:
        raise UsageError("the tables do not say their model; say it: --model")
    found: dict[str, Any] = {"model": name}
    for option in ("tensor_parallel_size", "attention"):
        if option in dimensions:
            found[option] = dimensions[option]
    return found


def _plain(groups: list[FittedGroup]) -> dict[str, Any]:
    from dataclasses import asdict

    return {"groups": [{**asdict(group), "at_limit": group.at_limit} for group in groups]}


def _text(groups: list[FittedGroup]) -> str:
    from serq.results.tables import Table
    from serq.results.text import aligned

    columns = ("group", "points", "efficiency", "assumed", "fitted, held out", "worst", "table, left out")
    rows = []
    for group in groups:
        share = "none fits" if group.at_limit else f"{group.efficiency:.4g}"
        worst = "-" if group.held_out is None else f"{group.held_out.worst:.1%}"
        errors = [_mean(found) for found in (group.assumed, group.held_out, group.interpolated)]
        rows.append((group.name, str(group.points), share, errors[0], errors[1], worst, errors[2]))
    return "\n".join(aligned(Table(columns, tuple(rows), words=True)))


def _mean(errors: Errors | None) -> str:
    return "-" if errors is None else f"{errors.mean:.1%}"


@calibrate.command("import")
@click.argument("source", type=FILE)
@click.argument("folder", type=FILE)
@click.option("--model", help="Whose operators; needed where the tables do not say it.")
@click.option("--tp", type=_COUNT, default=1, show_default=True, help="Of how many ranks one was measured.")
@click.option("--device", help="Where they were measured; AIConfigurator's files do not say it.")
@click.option("--software", multiple=True, metavar="NAME=VERSION", help="With what; may be repeated.")
def import_tables(
    source: Path, folder: Path, model: str | None, tp: int, device: str | None, software: tuple[str, ...]
) -> None:
    """Write tables of others in SOURCE as tables of the project into FOLDER.

    SOURCE is a folder of the LLMServingSim profiler (with meta.yaml), or a file or folder in the format of
    AIConfigurator (context_attention_perf, generation_attention_perf, gdn_perf).
    """
    from serq.kernels.calibration.importing import write_tables

    if (source / "meta.yaml").exists():
        if device or software:
            raise UsageError("meta.yaml says where the tables were measured; drop --device and --software")
        from serq.kernels.calibration.llmservingsim import read_llmservingsim

        tables, provenance, name = read_llmservingsim(source, model, tp)
    else:
        tables, provenance, name = _aiconfigurator(source, model, tp, device, software)
    write_tables(tables, folder, provenance, {"model": name, "tensor_parallel_size": tp})
    for table in tables:
        left = f", {table.left_out} left out: no full grid" if table.left_out else ""
        click.echo(f"{table.operator:26} {len(table.points):6} points{left}")


def _aiconfigurator(
    source: Path, model: str | None, tp: int, device: str | None, software: tuple[str, ...]
) -> tuple[list[ImportedTable], Provenance, str]:
    from serq.kernels.calibration.aiconfigurator import read_aiconfigurator
    from serq.kernels.catalogue import unknown
    from serq.kernels.catalogue.models import models
    from serq.kernels.roofline.shard import Shard

    if model is None or device is None:
        raise UsageError("these tables hold many models and do not say their device: --model, --device")
    if model not in models():
        raise UsageError(f"unknown model `{model}`; {unknown('model', model, models())}")
    versions = {}
    for text in software:
        name, equals, version = text.partition("=")
        if not (name and equals and version):
            raise UsageError(f"--software {text}: write NAME=VERSION")
        versions[name] = version
    shard = Shard(models()[model], tp)
    fault = shard.fault()
    if fault is not None:
        raise UsageError(f"{fault[0]}; {fault[1].replace('`tensor_parallel_size`', '--tp')}")
    return (*read_aiconfigurator(source, shard, device, versions), model)
