"""The commands ``serq oracle …``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from serq.errors import SerqError
    from serq.oracle.compare import Difference

_FILE = click.Path(path_type=Path)


@click.group()
def oracle() -> None:
    """Replay recorded scheduler traces in our model and compare."""


@oracle.command()
@click.argument("paths", nargs=-1, required=True, type=_FILE)
def check(paths: tuple[Path, ...]) -> None:
    """Replay every scenario in PATHS (files or folders) and compare with its recorded trace.

    One line per file that differs. The exit status is 0 only if all are identical.
    """
    from serq.errors import SerqError
    from serq.oracle.files import find_files

    try:
        files = find_files(paths)
    except SerqError as error:
        _fail(error)
    identical = 0
    for file in files:
        try:
            difference = _check_file(file)
        except SerqError as error:
            click.echo(f"{error}" if str(file) in str(error) else f"{file}: {error}")
            continue
        if difference is None:
            identical += 1
        else:
            click.echo(f"{file}: {difference}")
    click.echo(f"{identical} of {len(files)} identical")
    raise SystemExit(0 if identical == len(files) else 1)


def _check_file(file: Path) -> Difference | None:
    from serq.oracle.compare import first_difference
    from serq.oracle.files import read_oracle
    from serq.oracle.replay import replay
    from serq.oracle.scenario import parse_scenario

    scenario, trace = read_oracle(file)
    return first_difference(trace, replay(parse_scenario(scenario, str(file))))


@oracle.command("replay")
@click.argument("file", type=_FILE)
@click.option("-o", "--output", type=_FILE, help="Write scenario and trace to this file instead.")
def replay_command(file: Path, output: Path | None) -> None:
    """Print the trace of the scenario in FILE, replayed in our model, as JSON."""
    import json

    from serq.errors import SerqError
    from serq.oracle.files import read_scenario
    from serq.oracle.replay import replay
    from serq.oracle.scenario import parse_scenario

    try:
        scenario = read_scenario(file)
        trace = replay(parse_scenario(scenario, str(file)))
        if output is None:
            click.echo(json.dumps(trace, separators=(",", ":")))
            return
        text = json.dumps({"scenario": scenario, "trace": trace}, separators=(",", ":"))
        output.write_text(text + "\n", encoding="utf-8")
    except (SerqError, OSError) as error:
        _fail(error)


@oracle.command()
@click.argument("file", type=_FILE)
@click.option("--replay", "ours", is_flag=True, help="Show our replay, not the recorded trace.")
@click.option("--from", "start", type=click.IntRange(min=0), default=0, help="First step.")
@click.option("--to", "end", type=click.IntRange(min=0), help="Last step (default: the 60th shown).")
@click.option("--width", type=click.IntRange(min=30), default=100, help="Characters in a line.")
def show(file: Path, ours: bool, start: int, end: int | None, width: int) -> None:
    """Print the steps of FILE as a table: requests as rows, steps as columns."""
    from serq.errors import SerqError
    from serq.oracle.table import LEGEND, step_table

    try:
        trace = _full_trace(file, ours)
    except SerqError as error:
        _fail(error)
    last = start + 59 if end is None else end
    steps = trace["steps"][start : last + 1]
    if not steps:
        click.echo(f"no step {start}: the trace has {len(trace['steps'])}")
        return
    click.echo(step_table(steps, trace["requests"], width=width))
    click.echo(f"\n{LEGEND}")
    if end is None and last + 1 < len(trace["steps"]):
        click.echo(f"steps {start} to {last} of {len(trace['steps'])}; see --from and --to")


def _full_trace(file: Path, ours: bool) -> dict[str, Any]:
    """The trace to show: the recorded one, or ours if there is none, if it is a digest, or if asked for."""
    import msgspec

    from serq.oracle.files import read_json, read_scenario
    from serq.oracle.replay import replay
    from serq.oracle.scenario import TraceOptions, parse_scenario

    data = read_json(file)
    trace = data.get("trace") if isinstance(data, dict) else None
    if isinstance(trace, dict) and "columns" not in trace and not ours:
        return trace
    scenario = parse_scenario(read_scenario(file), str(file))
    return replay(msgspec.structs.replace(scenario, trace=TraceOptions()))


@oracle.command()
@click.argument("expected", type=_FILE)
@click.argument("got", type=_FILE)
@click.option("--context", type=click.IntRange(min=0), default=3, help="Steps shown before the difference.")
def diff(expected: Path, got: Path, context: int) -> None:
    """Print the first difference between the traces in two files, with the steps before it."""
    from serq.errors import SerqError
    from serq.oracle.compare import first_difference
    from serq.oracle.files import read_trace

    try:
        one, other = read_trace(expected), read_trace(got)
    except SerqError as error:
        _fail(error)
    difference = first_difference(one, other)
    if difference is None:
        click.echo("identical")
        return
    click.echo(str(difference))
    if difference.step is not None:
        for name, trace in ((expected, one), (got, other)):
            _print_context(name, trace, difference.step, context)
    raise SystemExit(1)


def _print_context(file: Path, trace: dict[str, Any], step: int, context: int) -> None:
    from serq.oracle.table import step_table

    first = max(0, step - context)
    steps = trace["steps"][first : step + 1]
    click.echo(f"\n{file}, steps {first} to {step}:")
    if steps and isinstance(steps[0], dict):
        click.echo(step_table(steps, trace["requests"]))
    else:
        for values in steps:
            click.echo("  " + " ".join(str(value) for value in values))


def _fail(error: SerqError | OSError) -> NoReturn:
    """Say what is wrong and leave with the error's exit status."""
    click.echo(f"error: {error}", err=True)
    raise SystemExit(getattr(error, "exit_code", 1))
