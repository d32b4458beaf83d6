"""The help line for a name that is not known, or not meant as it is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from serq.grammar import ast
from serq.ir.nearest import closest

MANY: Final = 8
"""Names that are too many to list in a help line."""
_LONGEST: Final = 60
"""Characters of a call that a help line repeats."""


def which(name: str, declared: Iterable[str], what: str) -> str | None:
    """The help line for an unknown pool or stage: the nearest one, or all where they are few."""
    near = did_you_mean(name, declared)
    few = [f"`{other}`" for other in declared]
    if near is not None or not 0 < len(few) <= MANY:
        return near
    return f"the {what}s are {', '.join(few)}" if len(few) > 1 else f"the only {what} is {few[0]}"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The help line that offers the nearest known name."""
    near = closest(name, known)
    return None if near is None else f"did you mean `{near}`?"


def how_to_draw(node: ast.Call, arguments: int) -> str:
    """The help line for a distribution that is called like a function: the same call as a draw."""
    name = node.function.text
    if len(node.arguments) == arguments:
        written = " ".join(node.place.text.split())
        return f"write `~{written if len(written) <= _LONGEST else f'{name}(…)'}` to draw"
    counted = "1 argument" if arguments == 1 else f"{arguments} arguments"
    return f"a draw is written `~{name}(…)`, with {counted}"
