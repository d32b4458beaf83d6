"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from serq.cli import completion


class FilePath(click.Path):
    """A path; not the empty text that an unset shell variable leaves, which would mean the current folder.

    ``stdin``: a program is wanted once, and `-` is that on standard input.
    """

    def __init__(self, *, stdin: bool = False) -> None:
        super().__init__()
        self._stdin = stdin

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Refuse an empty path, and `-` where it means nothing; make a ``Path`` of any other."""
        if not str(value):
            self.fail("an empty path", param, ctx)
        if str(value) == "-" and not self._stdin:
            self.fail(
                "`-` is taken for a program by `serq run`, `check`, `ir`, `draw`, `explain`, `report`, "
                "`plot` and `timeline` only: give the path of a file",
                param,
                ctx,
            )
        return Path(value)


FILE = FilePath()
PROGRAM = FilePath(stdin=True)
"""The path of a program that is read once, or `-`."""

program_file = click.argument("file", type=FILE)
program_or_stdin = click.argument("file", type=PROGRAM)


def parse_sets(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """The values of ``NAME=EXPR`` options by name. Raises BadParameter for what is none, or twice there."""
    sets: dict[str, str] = {}
    for text in values:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise click.BadParameter(f"{text!r} is not NAME=EXPRESSION, such as rate=2*3")
        if name in sets:
            raise click.BadParameter(f"`{name}` is set twice")
        sets[name] = value
    return sets


sets_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=EXPR",
    callback=parse_sets,
    shell_complete=completion.lets,
    help="Give the `let` NAME another value; may be repeated.",
)

_RUN_OPTIONS = (
    sets_option,
    click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Seed of all random draws."),
    click.option("--horizon", type=float, metavar="T", help="Model time at which the run ends."),
    click.option("--warmup", type=float, metavar="T", help="Model time at which statistics begin."),
    click.option("--arrivals", type=int, metavar="N", help="Stop arrivals after N."),
    click.option("--trace", type=FILE, metavar="FILE", help="Replay this trace."),
)


_RUN_SETTINGS = (
    click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="The first seed."),
    click.option("--horizon", type=float, metavar="T", help="Model time at which runs end."),
    click.option("--warmup", type=float, metavar="T", help="Model time at which statistics begin."),
    click.option("--arrivals", type=int, metavar="N", help="Stop arrivals after N."),
    click.option("--trace", type=FILE, metavar="FILE", help="Replay this trace."),
)

jobs_option = click.option(
    "--jobs", type=int, default=-1, show_default=True, help="Processes; -1: one a core (joblib)."
)


def run_settings(command: Any) -> Any:
    """Give ``command`` the options that all runs of a study have."""
    for option in reversed(_RUN_SETTINGS):
        command = option(command)
    return command


by_option = click.option(
    "--by",
    "by",
    multiple=True,
    type=click.Choice(("class", "handle", "stage", "engine", "session", "turn")),
    help="Also show what requests of each of these saw; may be repeated.",
)


price_option = click.option(
    "--price-per-hour", type=float, metavar="MONEY", help="What a device costs an hour: also show money."
)


def running(command: Any) -> Any:
    """Give ``command`` the options of a run, which it hands to `api.compile`."""
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command
