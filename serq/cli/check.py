"""`serq check`: say what is wrong with programs without running them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli.exits import FAILED
from serq.cli.options import PROGRAM, sets_option
from serq.errors import DataError

if TYPE_CHECKING:
    from serq.source import Diagnostic


@click.command()
@click.argument("files", nargs=-1, required=True, type=PROGRAM)
@sets_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array, an element a file.")
def check(files: Sequence[Path], sets: Mapping[str, str], as_json: bool) -> None:
    """Check each FILE (.sq or .json): parse it, link it, validate it. Exits with 1 where one has an error."""
    outcomes = [_Outcome(file, sets) for file in files]
    if as_json:
        click.echo(json.dumps([outcome.to_json() for outcome in outcomes], ensure_ascii=False))
    else:
        for outcome in outcomes:
            click.echo(outcome.render(), err=outcome.failed)
    if any(outcome.failed for outcome in outcomes):
        sys.exit(FAILED)


class _Outcome:
    """What is to be said about one file."""

    def __init__(self, file: Path, sets: Mapping[str, str]) -> None:
        from serq import api

        self.file = file
        self.diagnostics: list[Diagnostic] = []
        self.unreadable: DataError | None = None
        try:
            self.diagnostics = api.check(file, sets=sets)
        except DataError as error:
            self.unreadable = error

    @property
    def failed(self) -> bool:
        return self.unreadable is not None or any(d.severity == "error" for d in self.diagnostics)

    def render(self) -> str:
        if self.unreadable is not None:
            return f"error: {self.unreadable}"
        lines = [diagnostic.render() for diagnostic in self.diagnostics]
        return "\n".join(lines if self.failed else [*lines, f"{self.file}: ok"])

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"file": str(self.file), "ok": not self.failed}
        if self.unreadable is not None:
            out["error"] = str(self.unreadable)
        out["diagnostics"] = [diagnostic.to_json() for diagnostic in self.diagnostics]
        return out
