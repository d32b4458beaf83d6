"""What a shell offers behind a command: names that only serq knows. Nothing here may fail or be slow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import click
from click.shell_completion import CompletionItem

_LET: Final = re.compile(r"^\s*let\s+([^\W\d]\w*)", re.MULTILINE)


def _beginning(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]


def lets(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`NAME=` of every `let` in the text of the program that the line names, not of what it uses."""
    # behind an option that still lacks its value click has not assigned the arguments yet
    known = [context.params.get(name) for name in ("file", "source", "a")]
    file = next((path for path in (*known, *context.args) if path and str(path).endswith(".sq")), None)
    if file is None or "=" in incomplete:
        return []
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except (OSError, ValueError):
        return []
    return _beginning((f"{name}=" for name in _LET.findall(text)), incomplete)


def metrics_and_files(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Metrics that `serq explain` defines; where none begins so, files."""
    from serq.results.definitions import DEFINITIONS

    found = _beginning((metric.name for metric in DEFINITIONS), incomplete) if incomplete else []
    return found or [CompletionItem(incomplete, type="file")]


def figures(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The figures of a run."""
    from serq.results.plots import FIGURES

    return _beginning(FIGURES, incomplete)


def models(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The models of the catalogue."""
    from serq.kernels.catalogue.models import models as known

    return _beginning(known(), incomplete)


def devices(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The devices of the catalogue."""
    from serq.kernels.catalogue.devices import devices as known

    return _beginning(known(), incomplete)
