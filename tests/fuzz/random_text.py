"""What random programs are written with."""

from __future__ import annotations

from random import Random


class RandomText:
    """Draws the pieces of a program. ``members`` of its engine stand in a family, if there are several."""

    def __init__(self, rng: Random, index: str) -> None:
        """``index`` is that of the member a session goes to, where there are several."""
        self.rng = rng
        self.members = rng.choice((1, 1, 1, 2, 3))
        self.family = f"[{self.members}]" if self.members > 1 else ""
        self.index = index.replace("MEMBERS", str(self.members)) if self.members > 1 else ""

    def pick(self, *options: str) -> str:
        """One of ``options``."""
        return self.rng.choice(options)

    def maybe(self, chance: float, text: str) -> str:
        """``text`` with that chance, else nothing."""
        return text if self.rng.random() < chance else ""

    def member(self) -> str:
        """The statement of `init` that gives a session its member."""
        if self.members == 1:
            return ""
        return f"set member = serial - {self.members} * floor(serial / {self.members}); "
