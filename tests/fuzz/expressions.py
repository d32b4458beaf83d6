"""Random expressions, each legal at its place (R-A-032) and inside what the two implementations share.

Amounts are never negative, draws are only ``~det``, nothing is 0/0: the rest is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.fuzz.deployment import Deployment, PoolSpec, StageSpec

CLEAN = ("x", "y", "serial", "turn_no")
"""Attributes that never hold live state: readable in the header of a hold (R-A-071)."""
LIVE = ("v", "w")
TRACED = ("new", "out", "think", "more", "forced")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass
class Expressions:
    """Writes expressions for one deployment; ``rng`` is the program's own."""

    rng: Random
    deployment: Deployment

    # --- leaves ---------------------------------------------------------------------------------------------

    def number(self) -> str:
        rng = self.rng
        return rng.choice((str(rng.randrange(6)), str(rng.randrange(6)), "0.5", "1.5", "0.25", "3", "0.75"))

    def clean_leaf(self) -> str:
        """A constant or an attribute that never reads live state."""
        deployment, rng = self.deployment, self.rng
        names = list(CLEAN)
        if deployment.traced:
            names += TRACED
        names += deployment.lets
        return rng.choice(names) if rng.random() < 0.6 else self.number()

    def index(self, count: int) -> str:
        """The index of a family member, always in range; sometimes a fraction (R-A-031)."""
        low = "0.5" if self.rng.random() < 0.05 else "0"
        choices = ["0", str(count - 1), "j", "j", f"min({count - 1}, serial)"]
        choices.append(f"x > 3 ? {low} + (0 * x) : {count - 1}")
        return self.rng.choice(choices)

    def pool_ref(self, pool: PoolSpec) -> str:
        if pool.count == 1:
            return pool.name if self.rng.random() < 0.95 else f"{pool.name}[0]"
        return f"{pool.name}[{self.index(pool.count)}]"

    def stage_ref(self, stage: StageSpec) -> str:
        if stage.count == 1:
            return stage.name
        return f"{stage.name}[{self.index(stage.count)}]"

    def pool_read(self) -> str:
        """Live state of a pool (R-A-030); `free` only where it is finite."""
        pool = self.rng.choice(self.deployment.pools)
        names = ["used", "holders", "queued", "cachedin", "used", "cachedin"]
        if pool.cap is not None:
            names.append("free")
        if pool.block is not None:
            names.append("blocksize")
        return f"{self.rng.choice(names)}({self.pool_ref(pool)})"

    def stage_read(self) -> str:
        """Live state of a stage (R-B-018). Nobody's work is -0 in the reference, and queue keys see it."""
        ref = self.stage_ref(self.rng.choice(self.deployment.stages))
        return self.rng.choice((f"queue({ref})", f"queue({ref})", f"busy({ref})", f"(work({ref}) + 0)"))

    def live_leaf(self) -> str:
        kinds = [lambda: "now", lambda: self.rng.choice(LIVE), lambda: "cached", lambda: "computed"]
        kinds += [self.stage_read]
        if self.deployment.pools:
            kinds += [self.pool_read, self.pool_read, self.pool_read]
        if self.deployment.hidden:
            kinds.append(lambda: "h")
        return self.rng.choice(kinds)()

    # --- trees ----------------------------------------------------------------------------------------------

    def tree(self, leaf: object, depth: int = 2) -> str:
        """A tree of operators over leaves made by ``leaf``."""
        rng = self.rng
        assert callable(leaf)
        if depth == 0 or rng.random() < 0.35:
            return str(leaf())

        def sub() -> str:
            return self.tree(leaf, depth - 1)

        def comparison() -> str:
            return f"({sub()} {rng.choice(COMPARISONS)} {sub()})"

        shapes = [
            lambda: f"({sub()} {rng.choice('+-*+')} {sub()})",
            lambda: f"{rng.choice(('min', 'max'))}({sub()}, {sub()})",
            lambda: f"({comparison()} ? {sub()} : {sub()})",
            lambda: f"{rng.choice(('floor', 'ceil', 'abs'))}({sub()} / 2)",
            comparison,
            lambda: f"({comparison()} {rng.choice(('&&', '||'))} {sub()})",
            lambda: f"!{sub()}",
            lambda: f"(-{sub()})",
            lambda: f"({sub()} / {rng.choice(('2', '4', '3'))})",
            lambda: f"({rng.choice('xy')} ^ 2)",
            *(lambda name=name: f"{name}({sub()})" for name in self.deployment.functions),
        ]
        return rng.choice(shapes)()

    def clean(self, depth: int = 2) -> str:
        """Attributes and constants only."""
        return self.tree(self.clean_leaf, depth)

    def any_leaf(self) -> str:
        return self.live_leaf() if self.rng.random() < 0.5 else self.clean_leaf()

    def live(self, depth: int = 2) -> str:
        """Everything a session statement may read."""
        return self.tree(self.any_leaf, depth)

    def header_leaf(self) -> str:
        """What the header of a hold may read: no hidden attribute, no attribute with live state."""
        rng = self.rng
        if rng.random() < 0.6 or not self.deployment.pools:
            return self.clean_leaf()
        return rng.choice(
            (self.pool_read, self.pool_read, self.stage_read, lambda: "cached", lambda: "now")
        )()

    def header(self, depth: int = 2) -> str:
        return self.tree(self.header_leaf, depth)

    def amount(self, most: int, wild: str) -> str:
        """Zero or more, at most ``most``, from a wild expression."""
        return f"min({most}, max(0, {wild}))"

    def condition(self) -> str:
        """Exactly 0 or 1 (R-A-095)."""
        rng = self.rng
        if rng.random() < 0.5:
            return f"{self.live(1)} {rng.choice(COMPARISONS)} {self.live(1)}"
        return f"{rng.choice(('serial', 'x', 'y', 'turn_no'))} {rng.choice(COMPARISONS)} {rng.randrange(5)}"

    def work(self) -> str:
        """Work of a plain run: often zero or a tie, sometimes read from live state or a `~det` draw."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.1:
            return "0"
        if kind < 0.5:
            return rng.choice(
                ("1", "2", "0.5", "1 + serial", "serial * 0.5", "0.25 + x / 4", "1.3", "0.7 + 0.1 * y")
            )
        if kind < 0.58:
            return f"~det({rng.choice(('1', '2', '0.5 + serial'))})"
        if kind < 0.65 and self.deployment.hidden:
            return "h / 2"
        return self.amount(6, self.live(2))

    def keys(self, leaf: object, depth: int = 1) -> str:
        """One or two sorting keys."""
        return ", ".join(self.tree(leaf, depth) for _ in range(self.rng.choice((1, 1, 2))))
