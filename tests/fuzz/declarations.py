"""The declarations of a generated program: pools, stages, workload, run block."""

from __future__ import annotations

from random import Random

from tests.fuzz.deployment import Deployment, PoolSpec, StageSpec
from tests.fuzz.expressions import Expressions
from tests.fuzz.tree import Block, Piece

PROCEDURES = {
    name: Piece(head, (body,))
    for name, head, body in (
        (
            "take",
            "def take(p, n, t)",
            (
                Piece(
                    "hold p (n)", ((Piece("observe a = used(p)"), Piece("run think (t)")),), tail="cache (n)"
                ),
                Piece("observe b = cachedin(p)"),
            ),
        ),
        (
            "press",
            "def press(p, n, t)",
            (
                Piece(
                    "hold p (1)",
                    ((Piece("run think (t)"), Piece("grow p (n)"), Piece("run think (0.5)")),),
                ),
            ),
        ),
        (
            "twice",
            "def twice(s, w)",
            (Piece("run s (max(0, w))"), Piece("observe c = queue(s)"), Piece("run s (max(0, w))")),
        ),
    )
}
"""Defs with statements that a program may call."""


class Declarations:
    """Writes the items around the session."""

    def __init__(self, rng: Random, deployment: Deployment) -> None:
        self.rng = rng
        self.deployment = deployment
        self.write = Expressions(rng, deployment)

    def lets_and_functions(self) -> Block:
        """`let` and `def`: they stand before their uses (R-A-008 to R-A-010)."""
        values = {"unit": "1 + 1", "pace": "max(0.5, 2 ^ -1)"}
        bodies = {"wave": "(a) = a > 4 ? a - 4 : a + 1.5", "clip": "(a) = min(9, max(0 - 9, a))"}
        lets = [Piece(f"let {name} = {values[name]}") for name in self.deployment.lets]
        functions = [Piece(f"def {name}{bodies[name]}") for name in self.deployment.functions]
        return (*lets, *functions, *(PROCEDURES[name] for name in self.deployment.procedures))

    def pool(self, pool: PoolSpec) -> Piece:
        """A pool with its options in any order (R-A-040)."""
        rng = self.rng
        options = [f"preempt {'lifo' if pool.lifo else 'none'}"]
        if pool.cap is not None:
            options.append(f"cap {pool.cap}")
        if pool.block is not None:
            options.append(f"block {pool.block}")
        if rng.random() < 0.45:
            options.append(f"queue by ({self.write.keys(self._queue_leaf)})")
        if rng.random() < 0.4:
            options.append(f"evict by ({self.write.keys(self._eviction_leaf)})")
        if pool.engine:
            options.append(f"admit via {pool.engine}")
        if pool.spills:
            work = rng.choice(("size / 2", "0", "0.5 * size + age / 8", "1"))
            when = rng.choice(("1", "size > 1", "waiting", "age < 4", "serial != 1"))
            options.append(f"spill tier via think ({work}) when ({when})")
        rng.shuffle(options)
        count = f"[{pool.count}]" if pool.count > 1 else ""
        return Piece(f"pool {pool.name}{count}", (tuple(map(Piece, options)),))

    def _queue_leaf(self) -> str:
        rng = self.rng
        return rng.choice(
            (lambda: "waited", lambda: "-waited", self.write.header_leaf, self.write.clean_leaf)
        )()

    def _eviction_leaf(self) -> str:
        rng = self.rng
        if rng.random() < 0.7:
            return rng.choice(("size", "age", "last", "waiting", "-last", "-size"))
        return rng.choice((self.write.clean_leaf, self.write.pool_read))()

    def stage(self, stage: StageSpec) -> Piece:
        rng = self.rng
        head = f"stage {stage.name}{f'[{stage.count}]' if stage.count > 1 else ''} : "
        if stage.kind == "step":
            return Piece(head + "step", (self._step_options(stage),))
        if stage.kind == "fifo":
            return Piece(head + rng.choice(("fifo", "fifo(1)", "fifo(2)", "fifo(3)")))
        if stage.kind == "ps":
            moving = () if stage.flow else ("min(present, 2)", "present / 2", "present > 2 ? 2 : 1")
            return Piece(head + f"ps({rng.choice(('1', '2', '4', '3', *moving))})")
        return Piece(head + "delay")

    def _step_options(self, stage: StageSpec) -> Block:
        rng = self.rng
        options = [f"cost {self._cost(stage)}"]
        if rng.random() < 0.75:
            moving = "decoders > 1 ? 4 : 8", "2 + residents", "now < 4 ? 3 : 9", "4 + kv_decode / 8"
            options.append(f"budget {rng.choice(('2', '3', '4', '6', '8', '16', '2.5', '0.5', *moving))}")
        if rng.random() < 0.4:
            options.append(
                f"chunk {rng.choice(('1', '2', '3', '4', '0', '1.5', 'residents > 1 ? 2 : 4', '-1'))}"
            )
        if stage.memory:
            options.append(f"memory {stage.memory}")
        options += self._serve()
        rng.shuffle(options)
        return tuple(map(Piece, options))

    def _cost(self, stage: StageSpec) -> str:
        """A price that is always positive: the reference accepts none, we refuse it (R-B-032)."""
        rng = self.rng
        terms = [
            "tokens * 0.125",
            "prefilled * 0.25",
            "decoders * 0.0625",
            "residents * 0.03125",
            "0.1 * tokens",
        ]
        terms += ["kv_decode / 64", "kv_prefill / 64", "attention / 128", "queue(think) / 8", "now / 100"]
        count = rng.choice((0, 0, 1, 1, 2, 3))
        return " + ".join([rng.choice(("1", "0.5", "0.25", "0.3", "2")), *rng.sample(terms, count)])

    def _serve(self) -> list[str]:
        """How residents are ordered; a victim already served crashes the reference (R-B-049)."""
        rng = self.rng
        if rng.random() < 0.5:
            return []
        lifo = any(pool.lifo for pool in self.deployment.pools)
        orders = ["serve admission", "serve exclusive prefill", "serve exclusive prefill"]
        if not lifo or rng.random() < 0.25:
            keys = (
                "remaining",
                "-remaining",
                "decoding",
                "x",
                "-admission",
                "remaining > 2",
                "y, remaining",
                "residents > 2 ? remaining : x",
            )
            orders += [
                "serve decode first",
                f"serve by ({rng.choice(keys)})",
                f"serve by ({rng.choice(keys)})",
            ]
        return [rng.choice(orders)]

    def workload(self) -> Piece:
        """Who arrives; `init` and `turn` set the attributes that the expressions read."""
        rng = self.rng
        init = [
            "set x = serial",
            f"set y = {rng.choice(('max(0, 3 - serial / 2)', 'serial > 1', '(serial * 5 + 2) / 3'))}",
        ]
        init += [f"set j = {rng.choice(('0', 'serial > 1', 'serial < 2'))}"]
        init += ["set v = 0", "set w = 0", *(["set h = 1 + serial"] if self.deployment.hidden else [])]
        turn = ["set x = x > 5 ? x - 4 : x + 3", *(["observe at_turn = x"] if rng.random() < 0.3 else [])]
        items = [self._arrive(), Piece("init", (tuple(map(Piece, init)),))]
        if rng.random() < 0.8:
            items.append(Piece("turn", (tuple(map(Piece, turn)),)))
        if self.deployment.hidden:
            items.append(Piece("hidden h"))
        if self.deployment.traced:
            items.append(Piece('trace "TRACE" ordered'))
        rng.shuffle(items)
        return Piece("workload", (tuple(items),))

    def _arrive(self) -> Piece:
        rng, count = self.rng, self.deployment.sessions
        if rng.random() < 0.65:
            return Piece(f"arrive batch({count})")
        if rng.random() < 0.4:
            return Piece(f"arrive closed({min(count, 4)})")
        return Piece(f"arrive renewal(~det({rng.choice(('0.5', '1', '1.5', '2', '0.7'))}))")

    def trace(self) -> str | None:
        """Rows of `session,turn,new,out,think,forced`; sessions are runs of equal numbers (R-B-080)."""
        if not self.deployment.traced:
            return None
        rng = self.rng
        rows = ["session,turn,new,out,think,forced"]
        for session in range(rng.randrange(1, 4)):
            for turn in range(rng.randrange(1, 4)):
                forced = f",{rng.randrange(2)}" if rng.random() < 0.5 else ""
                new, out, think = rng.randrange(1, 7), rng.randrange(1, 5), rng.choice((0, 0.5, 1))
                rows.append(f"{session},{turn},{new},{out},{think}{forced}")
        return "\n".join(rows) + "\n"

    def run(self, open_arrivals: bool) -> Piece:
        """Horizon, sometimes a warm-up, sometimes a number of arrivals (R-B-090 to R-B-092)."""
        rng = self.rng
        options = [f"horizon {rng.choice((20, 30, 40, 60))}"]
        if rng.random() < 0.2:
            options.append(f"warmup {rng.choice((1, 2, 3, 4.5, 6))}")
        if rng.random() < (0.4 if open_arrivals else 0.01):
            options.append(f"arrivals {rng.randrange(1, 6)}")
        return Piece("run", (tuple(map(Piece, options)),))
