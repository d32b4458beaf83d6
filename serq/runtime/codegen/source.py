"""Python text under construction, with the part of the program that every line stands for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """What a generated line stands for: statement number ``statement``, or the text ``owner``."""

    statement: int | None = None
    owner: str = ""


class SourceText:
    """Lines of a generated module. Line n of the text stands for ``origins[n - 1]``."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.origins: list[Origin] = []
        self.origin = Origin()
        self._indent = 0

    def line(self, text: str) -> None:
        """Append one line at the current depth, for the current origin."""
        self.lines.append("    " * self._indent + text)
        self.origins.append(self.origin)

    @contextmanager
    def indented(self, opening: str) -> Iterator[None]:
        """The lines written inside belong to ``opening``, a line that ends in a colon."""
        self.line(opening)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def at(self, origin: Origin) -> Iterator[None]:
        """The lines written inside stand for ``origin``."""
        outer, self.origin = self.origin, origin
        yield
        self.origin = outer

    def append(self, other: SourceText) -> None:
        """All lines of ``other``, which stand at depth 0."""
        self.lines.extend(other.lines)
        self.origins.extend(other.origins)

    def text(self) -> str:
        """The whole module."""
        return "\n".join(self.lines) + "\n"


def identifier(prefix: str, name: str, number: int) -> str:
    """A Python name for the ``number``-th thing called ``name``, whatever ``name`` is.

    Python folds letters of names that only look alike (NFKC), the language does not; a name with letters
    outside ASCII is told apart by its number.
    """
    return f"{prefix}_{name}" if name.isascii() and name.isidentifier() else f"{prefix}_{number}_"
