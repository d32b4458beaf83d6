"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path

import click

program_file = click.argument("file", type=click.Path(path_type=Path))


def _parse_sets(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
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
    callback=_parse_sets,
    help="Give the `let` NAME another value; may be repeated.",
)
