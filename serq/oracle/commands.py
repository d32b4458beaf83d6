"""The commands ``serq oracle …``: errors are raised as ``SerqError`` for the command line to show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from serq.oracle.ascend.difference import Difference as RecordingDifference
    from serq.oracle.compare import Difference

_FILE = click.Path(path_type=Path)
_ELSEWHERE: dict[str, Any] = {"ignore_unknown_options": True, "help_option_names": []}


@click.group()
def oracle() -> None:
    """Replay recorded scheduler traces in our model and compare; record new ones."""


@oracle.command()
@click.argument("paths", nargs=-1, required=True, type=_FILE)
def check(paths: tuple[Path, ...]) -> None:
    """Replay every scenario in PATHS (files or folders) and compare with its recorded trace.

    One line per file that differs. The exit status is 0 only if all are identical.
    """
    from serq.errors import SerqError
    from serq.oracle.files import find_files

    files = find_files(paths)
    identical = 0
    for file in files:
        try:
            difference = _check_file(file)
        except SerqError as error:
            text = str(error)
            click.echo(text if text.startswith(str(file)) else f"{file}: {text}")
            continue
        if difference is None:
            identical += 1
        else:
            click.echo(f"{file}: {difference}")
    click.echo(f"{identical} of {len(files)} identical")
    raise SystemExit(0 if identical == len(files) else 1)


def _check_file(file: Path) -> Difference | RecordingDifference | None:
    from serq.oracle.ascend import check_ascend, is_recording
    from serq.oracle.compare import first_difference
    from serq.oracle.files import read_json, read_oracle
    from serq.oracle.replay import replay
    from serq.oracle.scenario import parse_scenario

    document = read_json(file)
    if is_recording(document):
        return check_ascend(document)
    scenario, trace = read_oracle(file)
    return first_difference(trace, replay(parse_scenario(scenario, str(file))))


@oracle.command("replay")
@click.argument("file", type=_FILE)
@click.option("-o", "--output", type=_FILE, help="Write scenario and trace to this file instead.")
def replay_command(file: Path, output: Path | None) -> None:
    """Print the trace of the scenario in FILE, replayed in our model, as JSON.

    Of a recording of vllm-ascend: what our model says in the place of what was recorded.
    """
    import json

    from serq.oracle.ascend import is_recording, replay_ascend
    from serq.oracle.files import read_json, scenario_in, write_json
    from serq.oracle.replay import replay
    from serq.oracle.scenario import parse_scenario

    document = read_json(file)
    if is_recording(document):
        ours = replay_ascend(document)
        whole = {**document, "expected": ours}
    else:
        scenario = scenario_in(document)
        ours = replay(parse_scenario(scenario, str(file)))
        whole = {"scenario": scenario, "trace": ours}
    if output is None:
        click.echo(json.dumps(ours, separators=(",", ":")))
    else:
        write_json(output, whole)


@oracle.command()
@click.argument("file", type=_FILE)
@click.option("--replay", "ours", is_flag=True, help="Show our replay, not the recorded trace.")
@click.option("--from", "start", type=click.IntRange(min=0), default=0, help="First step.")
@click.option("--to", "end", type=click.IntRange(min=0), help="Last step (default: the 60th shown).")
@click.option("--blocks", multiple=True, metavar="ID", help="Also the blocks this request holds, by group.")
@click.option("--width", type=click.IntRange(min=30), default=100, help="Characters in a line.")
def show(file: Path, ours: bool, start: int, end: int | None, blocks: tuple[str, ...], width: int) -> None:
    """Print the steps of FILE as a table: requests as rows, steps as columns."""
    from serq.errors import UsageError
    from serq.oracle.table import LEGEND, step_table

    trace = _full_trace(file, ours)
    steps = trace["steps"]
    last = start + 59 if end is None else end
    if not steps[start : last + 1]:
        raise UsageError(f"no step from {start} to {last}: the trace has {len(steps)} steps")
    click.echo(step_table(steps, trace["requests"], start, last + 1, width=width, blocks=blocks))
    click.echo(f"\n{LEGEND}")
    if end is None and last + 1 < len(steps):
        click.echo(f"steps {start} to {last} of {len(steps)}; see --from and --to")


def _full_trace(file: Path, ours: bool) -> dict[str, Any]:
    """The trace to show: the recorded one, or ours if there is none, if it is a digest, or if asked for."""
    import msgspec

    from serq.errors import DataError
    from serq.oracle.ascend import is_recording
    from serq.oracle.files import read_json, scenario_in, trace_in
    from serq.oracle.replay import replay
    from serq.oracle.scenario import TraceOptions, parse_scenario

    data = read_json(file)
    if is_recording(data):
        raise DataError(f"{file}: a recording of vllm-ascend has no steps to show; see `check` and `replay`")
    trace = trace_in(data)
    if trace is not None and "columns" not in trace and not ours:
        return trace
    scenario = parse_scenario(scenario_in(data), str(file))
    return replay(msgspec.structs.replace(scenario, trace=TraceOptions(blocks=True)))


@oracle.command()
@click.argument("expected", type=_FILE)
@click.argument("got", type=_FILE)
@click.option("--context", type=click.IntRange(min=0), default=3, help="Steps shown before the difference.")
def diff(expected: Path, got: Path, context: int) -> None:
    """Print the first difference between the traces in two files, with the steps before it."""
    from serq.oracle.compare import first_difference
    from serq.oracle.files import read_trace

    one, other = read_trace(expected), read_trace(got)
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
    click.echo(f"\n{file}, steps {first} to {step}:")
    if "columns" not in trace:
        click.echo(step_table(trace["steps"], trace["requests"], first, step + 1))
        return
    for values in trace["steps"][first : step + 1]:
        click.echo("  " + " ".join(str(value) for value in values))


@oracle.command(context_settings=_ELSEWHERE)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def capture(arguments: tuple[str, ...]) -> None:
    """Record traces of scenarios with an installed vLLM (see capture --help)."""
    from serq.oracle.capture.command import main

    raise SystemExit(main(arguments))


@oracle.command(context_settings=_ELSEWHERE)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def generate(arguments: tuple[str, ...]) -> None:
    """Write random scenarios (see generate --help)."""
    from serq.oracle.generate.command import main

    raise SystemExit(main(arguments))
