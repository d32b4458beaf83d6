"""Models and devices that executors know by name, each figure with its source."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from serq.ir.nearest import closest


@cache
def table(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a table of this package: column -> text."""
    text = files("serq.kernels.catalogue").joinpath(f"{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The help line for a name that the catalogue lacks."""
    names = list(known)
    folded = {known_name.casefold(): known_name for known_name in names}
    near = folded.get(name.casefold()) or closest(name, names)
    return f"did you mean `{near}`?" if near is not None else f"the {what}s are {', '.join(names)}"
