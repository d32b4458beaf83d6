"""Steps of decodes alone that will follow each other, as long as nothing comes from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class SteadyRun:
    """At most ``limit`` steps that are still to be formed, each when the oldest in flight has ended.

    Each has ``count`` decodes of one token; ``context`` is the sum of their computed tokens before the first,
    ``held`` the number of their blocks before it, ``free`` that of free blocks. ``needs[i % len(needs)]``
    blocks are taken by the step after ``i`` others. With a ``tail`` some have had their last share before
    step number ``limit``: (decodes left, their context, blocks of the others, blocks that the step takes).
    """

    limit: int
    count: int
    context: int
    held: int
    free: int
    needs: tuple[int, ...]
    number: int
    """The number of the first step, as the decode set counts."""
    extremes: Callable[[int], tuple[int, int]]
    """Of the step with a number: the fewest computed tokens of a decode before it, and the most."""
    tail: tuple[int, int, int, int] | None = None
