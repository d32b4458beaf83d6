"""`serq trace`: look at traces, convert them, and make new ones from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli.options import FILE
from serq.errors import DataError, UsageError

if TYPE_CHECKING:
    from serq.runtime.trace import Trace

_FORMATS = ("session", "azure", "mooncake")


@click.group()
def trace() -> None:
    """Work with trace files.

    Formats are session CSV, Azure LLM inference CSV and Mooncake JSONL, and, only read, a CSV or JSONL of
    lengths (input_len, output_len, perhaps time) and the detailed result of `vllm bench serve`.

    A format is recognised by the first line. Arrival times survive in a session CSV as an optional seventh
    column `time`, named in the header; `--no-times` leaves it out.
    """


def _writes_a_trace(default: str = "as read") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of every command that makes a trace; ``default`` says what it writes without --to."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option("--no-times", is_flag=True, help="Leave the `time` column out of a session CSV."),
            click.option(
                "--to", "format", type=click.Choice(_FORMATS), help=f"Format written (default: {default})."
            ),
            click.option("-o", "--output", type=FILE, help="File written (default: stdout)."),
            click.argument("file", type=FILE),
        ):
            command = option(command)
        return command

    return with_options


class _Range(click.ParamType[Any]):
    """A half-open range `A:B`; either end may be left out."""

    name = "A:B"

    def __init__(self, number: type[int] | type[float], last: float) -> None:
        self._number = number
        self._last = last

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            start, stop = value.split(":")
            return (self._number(start or 0), self._number(stop) if stop else self._last)
        except ValueError:
            return self.fail(f"{value!r} is not a range such as 0:600", param, ctx)


@trace.command()
@click.argument("file", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(file: Path, as_json: bool) -> None:
    """Say what FILE holds: sessions, turns, tokens, arrival rate."""
    from serq.results.trace_summary import describe

    facts = describe(_read(file))
    if as_json:
        click.echo(json.dumps(facts))
        return
    from serq.results.tables import figure

    shown = {
        "duration, s" if name == "duration" else name: figure(value) if isinstance(value, float) else value
        for name, value in facts.items()
    }
    width = max(map(len, shown))
    for name, value in shown.items():
        click.echo(f"{name.ljust(width)}  {'-' if value is None else value}")


@trace.command()
@click.option(
    "--columns",
    metavar="MEANING=COLUMN,…",
    help="FILE is a CSV of requests: input_len=A,output_len=B,time=C say which column is what.",
)
@click.option(
    "--time-unit",
    type=click.Choice(("s", "ms", "us", "ns")),
    help="What a time that is a number counts (default: s).",
)
@_writes_a_trace("session")
def convert(
    file: Path,
    output: Path | None,
    format: str | None,
    no_times: bool,
    columns: str | None,
    time_unit: str | None,
) -> None:
    """Write FILE in another format, and a CSV with columns of other names as a trace.

    Times are numbers or dates and times (ISO 8601). Without a time the requests come as a program lets them.
    """
    if columns is None:
        if time_unit is not None:
            raise UsageError("--time-unit is about the time in --columns: give both")
        _write(_read(file), output, format or "session", no_times)
        return
    from serq.results.trace_columns import Columns, read_columns

    wanted = Columns.parse(columns, time_unit or "s")
    _write(read_columns(file, wanted), output, format or "session", no_times)


@trace.command()
@click.option("--speed", type=float, required=True, help="How many times as fast sessions arrive.")
@_writes_a_trace()
def scale(file: Path, speed: float, output: Path | None, format: str | None, no_times: bool) -> None:
    """Let the sessions of FILE arrive faster or slower; think times stay."""
    from serq.runtime.trace.shaping import speed_up

    _write(speed_up(_read(file), speed), output, format, no_times)


@trace.command()
@click.option(
    "--window", type=_Range(float, float("inf")), help="Keep sessions that arrive in [A, B) seconds."
)
@click.option("--rows", type=_Range(int, 2**62), help="Keep sessions whose first row is in A .. B-1, from 0.")
@_writes_a_trace()
def cut(
    file: Path,
    window: tuple[float, float] | None,
    rows: tuple[int, int] | None,
    output: Path | None,
    format: str | None,
    no_times: bool,
) -> None:
    """Keep a part of FILE. Sessions are kept whole, and the first one kept arrives at 0."""
    from serq.runtime.trace.shaping import cut_rows, cut_window

    if (window is None) == (rows is None):
        raise click.UsageError("give either --window A:B or --rows A:B")
    part = cut_window(_read(file), *window) if window is not None else None
    if rows is not None:
        part = cut_rows(_read(file), *rows)
    assert part is not None
    _write(part, output, format, no_times)


@trace.command()
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=1, show_default=True)
@click.option("--sessions", type=int, help="How many sessions to draw (default: as many as FILE has).")
@click.option("--rate", type=float, help="Sessions a second on average (default: as in FILE).")
@_writes_a_trace()
def resample(
    file: Path,
    seed: int,
    sessions: int | None,
    rate: float | None,
    output: Path | None,
    format: str | None,
    no_times: bool,
) -> None:
    """Draw sessions of FILE, and the gaps between arrivals, with replacement."""
    from serq.runtime.trace import shaping

    _write(shaping.resample(_read(file), seed=seed, sessions=sessions, rate=rate), output, format, no_times)


def _read(file: Path) -> Trace:
    from serq.arguments import refuse_program
    from serq.runtime.trace import read_trace

    return read_trace(refuse_program(file))


def _write(trace: Trace, output: Path | None, format: Any, no_times: bool) -> None:
    from serq.runtime.trace import write_trace

    lines = write_trace(trace, format, times=not no_times)
    if (format or trace.format) == "session" and trace.hash_ids is not None:
        click.echo("note: a session CSV has no room for hash ids; they are left out", err=True)
    if output is None:
        for line in lines:
            click.echo(line)
        return
    try:
        with output.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror})") from None
