"""The session of a generated program: statements that mostly make sense where they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.fuzz.deployment import Deployment, PoolSpec, StageSpec
from tests.fuzz.expressions import Expressions
from tests.fuzz.tree import Block, Piece


@dataclass(frozen=True)
class Held:
    """One pool of an enclosing hold: as it was written, and about how many units it took."""

    pool: PoolSpec
    ref: str
    units: int


@dataclass(frozen=True)
class Scope:
    """Where a statement stands."""

    holds: tuple[Held, ...] = ()
    leased: tuple[str, ...] = ()
    depth: int = 3
    binding: str | None = None


class Statements:
    """Writes statements and blocks."""

    def __init__(self, rng: Random, deployment: Deployment) -> None:
        self.rng = rng
        self.deployment = deployment
        self.write = Expressions(rng, deployment)
        self._observations = 0
        self._bindings = 0
        self._leased: list[str] = []

    # --- blocks ---------------------------------------------------------------------------------------------

    def session(self, closed: bool) -> Block:
        """The body of the session; a closed client starts by letting time pass."""
        first = [Piece("run think (0.5 + serial / 4)")] if closed or self.rng.random() < 0.3 else []
        scope = Scope()
        body = [*first, *self.block(scope, self.rng.choice((2, 3, 3, 4, 5)))]
        if self.rng.random() < 0.2:
            return (Piece("set k = 0"), self._loop(body))
        body.append(Piece("observe done = now"))
        return (*body, Piece("end")) if self.rng.random() < 0.7 else tuple(body)

    def _loop(self, body: list[Piece]) -> Piece:
        """A loop in which time passes, left after a few rounds (R-A-096)."""
        again = [
            Piece("set k = k + 1"),
            Piece("run think (0.5)"),
            Piece("branch (k >= 3)", ((Piece("end"),),)),
        ]
        return Piece("loop", ((*body, *again),))

    def block(self, scope: Scope, length: int) -> Block:
        pieces: list[Piece] = []
        for _ in range(length):
            pieces.append(self.statement(scope))
            if self.rng.random() < 0.6:
                pieces.append(self._observe())
        return tuple(pieces)

    def statement(self, scope: Scope) -> Piece:
        """One statement, chosen among what is legal here."""
        choices: list[tuple[float, Callable[[Scope], Piece]]] = [
            (3, self._run),
            (1, lambda _: self._set()),
            (0.4, lambda _: Piece("turn")),
            (0.5, self._choose),
        ]
        if self.deployment.pools:
            choices.append((0.3, self._drop))
            if scope.depth:
                choices.append((5 if not scope.holds else 1.5, self._hold))
        if scope.depth:
            choices.append((0.8, self._branch))
        if self.deployment.steps():
            choices.append((2.5, self._serve))
        if len(self.deployment.flows()) > 1:
            choices.append((1.5, self._flow))
        if scope.depth and any(stage.memory for stage in self.deployment.steps()):
            choices.append((3 if not scope.holds else 0.5, self._request))
        if self.deployment.procedures and scope.depth:
            choices.append((1.5, self._procedure))
        if len({held.ref for held in scope.holds}) > 1:
            choices.append((0.3, self._transfer))
        if scope.holds:
            pressed = any(held.pool.lifo for held in scope.holds)
            choices += [(4 if pressed else 1.5, self._grow), (0.7, self._release), (0.15, self._load)]
        if self._leased:
            choices.append((0.5, lambda _: Piece(f"release {self.rng.choice(self._leased)}")))
        if self.rng.random() < 0.01:
            return Piece("end")
        weights = [weight for weight, _ in choices]
        return self.rng.choices([make for _, make in choices], weights)[0](scope)

    # --- simple statements ----------------------------------------------------------------------------------

    def _observe(self) -> Piece:
        rng = self.rng
        self._observations += 1
        name = rng.choice(("a", "b", "c", "now"))
        value = rng.choice(
            (lambda: str(self._observations), lambda: "now", self.write.live, self.write.live_leaf)
        )()
        return Piece(f"observe {name} = {value}")

    def _set(self) -> Piece:
        rng = self.rng
        if rng.random() < 0.5:
            return Piece(f"set {rng.choice('xy')} = min(9, max(0, {self.write.clean()}))")
        if rng.random() < 0.2:
            return Piece(f"set j = {rng.choice(('serial > 2', 'x > 3', '1 - (j > 0)'))}")
        if rng.random() < 0.2:
            return Piece(f"set v = ~det({self.write.live_leaf()})")
        return Piece(f"set {rng.choice('vw')} = min(20, max(-20, {self.write.live()}))")

    def _choose(self, scope: Scope) -> Piece:
        return Piece(f"choose j in 2 by ({self.write.keys(self.write.any_leaf)})")

    def _drop(self, scope: Scope) -> Piece:
        return Piece(f"drop {self.write.pool_ref(self.rng.choice(self.deployment.pools))}")

    def _branch(self, scope: Scope) -> Piece:
        rng, inner = self.rng, replace(scope, depth=scope.depth - 1)
        head = f"branch ({self.write.condition()})"
        if rng.random() < 0.05:
            head = f"branch with ({rng.choice('01')})"
        blocks = [self.block(inner, rng.choice((1, 1, 2))) for _ in range(rng.choice((1, 2)))]
        return Piece(head, tuple(blocks))

    # --- runs -----------------------------------------------------------------------------------------------

    def _run(self, scope: Scope) -> Piece:
        stage = self.rng.choice(self.deployment.plain())
        return Piece(f"run {self.write.stage_ref(stage)} ({self.write.work()})")

    def _flow(self, scope: Scope) -> Piece:
        stages = list(self.deployment.flows())
        self.rng.shuffle(stages)
        refs = ", ".join(self.write.stage_ref(stage) for stage in stages)
        return Piece(f"run {refs} ({self.write.work()})")

    def _serve(self, scope: Scope) -> Piece:
        """Work on a step engine, growing the innermost hold of a pool or not."""
        rng = self.rng
        stage = rng.choice(self.deployment.steps())
        mode = rng.choice(("prefill", "decode"))
        growing = self._growing(scope, stage)
        limit = max(1, growing.pool.room - growing.units) if growing else 8
        work = str(rng.randrange(min(limit, 8) + 1))
        if rng.random() < 0.35:
            work = self.write.amount(min(limit, 8), self.write.live(1))
        elif rng.random() < 0.1:
            work = rng.choice(("1.5", "2.5", "x / 2"))
        suffix = f" growing {growing.ref}" if growing else ""
        if rng.random() < 0.2:
            return Piece(f"{mode} on {self.write.stage_ref(stage)} {work}{suffix}")
        return Piece(f"run {self.write.stage_ref(stage)} {mode} ({work}){suffix}")

    def _request(self, scope: Scope) -> Piece:
        """The life of a request: slot and prompt, prefill, decode, and what it leaves cached."""
        rng = self.rng
        stage = next(stage for stage in self.deployment.steps() if stage.memory)
        index = "" if stage.count == 1 else rng.choice(("[0]", "[1]", "[j]"))
        growing = f" growing kv{index}" if rng.random() < 0.85 else ""
        prompt = rng.choice(("4", "2 + serial", "max(1, 6 - x / 4)", "3", "min(6, 1 + turn_no * 2)", "y"))
        taken = rng.choice((prompt, prompt, "1", "0", f"min({prompt}, 2)" if growing else prompt))
        units = [f"kv{index} ({taken})"]
        slots = [pool for pool in self.deployment.pools if pool.name == "reqs"]
        if slots and rng.random() < 0.8:
            units.insert(rng.choice((0, 0, 1)), f"reqs{index} (1)")
        done = rng.choice((" - cached", "", " - min(cached, 2)"))
        run = f"run gpu{index}"
        body = [
            Piece(f"{run} prefill (max(0, {prompt}{done})){growing}"),
            self._observe(),
            Piece(f"{run} decode ({rng.choice(('3', '1 + serial', '5', 'x', '0.5 + y'))}){growing}"),
            self._observe(),
        ]
        inner = replace(
            scope, holds=(*scope.holds, Held(self.deployment.pool("kv"), f"kv{index}", 6)), depth=0
        )
        if rng.random() < 0.3:
            body.insert(rng.randrange(5), self.statement(inner))
        if rng.random() < 0.2:
            body.append(Piece("run think (0.5)"))
        tail = f"cache ({rng.choice((prompt, '8', 'x + 3', '4'))})" if rng.random() < 0.6 else ""
        return Piece("hold " + ", ".join(units), (tuple(body),), tail=tail)

    def _growing(self, scope: Scope, stage: StageSpec) -> Held | None:
        """A hold to grow, most often one of the engine's memory."""
        held = {held.ref: held for held in scope.holds}
        if not held or self.rng.random() < 0.25:
            return None
        memory = [held for held in held.values() if held.pool.name == stage.memory]
        return self.rng.choice(memory or list(held.values()))

    def _procedure(self, scope: Scope) -> Piece:
        """A call of a `def` with statements (R-A-010); its arguments read attributes that it does not set."""
        rng, write = self.rng, self.write
        name = rng.choice(self.deployment.procedures)
        if name == "twice":
            return Piece(f"twice({write.stage_ref(rng.choice(self.deployment.plain()))}, {write.clean(1)})")
        pool = rng.choice(self.deployment.pools)
        units = rng.choice(("1", "2", "min(3, x)", str(max(1, pool.room // 2)), "1 + (serial > 1)"))
        return Piece(f"{name}({write.pool_ref(pool)}, {units}, {rng.choice(('1', '0.5 + y / 4', 'x / 3'))})")

    def _transfer(self, scope: Scope) -> Piece:
        """Work on a link, tokens loaded into one hold, another one released (R-A-094)."""
        source, target = self.rng.sample(sorted({held.ref for held in scope.holds}), 2)
        work = self.rng.choice(("1", "0.5", "0"))
        return Piece(
            f"transfer on think {work} from {source} to {target} ({self.rng.choice(('1', '0', '2'))})"
        )

    # --- memory ---------------------------------------------------------------------------------------------

    def _grow(self, scope: Scope) -> Piece:
        rng, held = self.rng, self.rng.choice(scope.holds)
        left = max(1, min(6, held.pool.room - held.units))
        amount = rng.choice((str(rng.randrange(left + 1)), self.write.amount(left, self.write.live(1))))
        return Piece(f"grow {held.ref} ({amount})")

    def _release(self, scope: Scope) -> Piece:
        return Piece(f"release {self.rng.choice(scope.holds).ref}")

    def _load(self, scope: Scope) -> Piece:
        held = self.rng.choice(scope.holds)
        return Piece(f"load {held.ref} ({self.rng.choice(('1', '0', '0.5', '2'))})")

    def _hold(self, scope: Scope) -> Piece:
        """A hold with any of its clauses (R-A-050 to R-A-092)."""
        rng, write = self.rng, self.write
        pools = rng.sample(
            self.deployment.pools, min(len(self.deployment.pools), rng.choice((1, 1, 1, 2, 2, 3)))
        )
        if rng.random() < 0.5:
            pools.sort(key=lambda pool: pool.engine is None)
        binding = self._binding() if rng.random() < 0.12 else None
        taken = [self._unit(pool, scope, binding) for pool in pools]
        head = "hold " + ", ".join(text for text, _ in taken)
        if rng.random() < 0.2:
            head += f" reuse ({rng.choice(('2', '3', '0', 'x', write.header(1)))})"
        if binding:
            name, value = binding
            head += f" at admission ({name} = {value})"
        inner = replace(scope, holds=(*scope.holds, *(held for _, held in taken)), depth=scope.depth - 1)
        body = self.block(inner, rng.choice((1, 2, 2, 3)))
        if rng.random() < 0.75:
            body = (*self._occupation([held for _, held in taken]), *body)
        return Piece(head, (body,), tail=self._clauses(taken))

    def _occupation(self, taken: list[Held]) -> Block:
        """Time passes in the hold; where growing may preempt, it often does."""
        rng = self.rng
        stay = Piece(f"run think ({rng.choice(('1', '2', '0.5 + serial / 2', '1.5', '1 + x / 3', '0.7'))})")
        pressed = [held for held in taken if held.pool.lifo and held.pool.cap]
        if not pressed or rng.random() < 0.25:
            return (stay,)
        held = rng.choice(pressed)
        growth = rng.choice((2, 3, "1 + serial", max(1, held.pool.room - held.units)))
        again = self.statement(Scope(depth=0)) if rng.random() < 0.5 else stay
        return (stay, Piece(f"grow {held.ref} ({growth})"), self._observe(), again)

    def _clauses(self, taken: list[tuple[str, Held]]) -> str:
        rng, clauses = self.rng, []
        if rng.random() < 0.5:
            amount = rng.choice(
                ("2", "4", "9", "x", "1 + serial", "-1", self.write.clean(1), self.write.header(1))
            )
            clauses.append(f"cache ({amount})")
        if rng.random() < 0.12:
            ref = rng.choice(taken)[1].ref
            self._leased.append(ref)
            clauses.append(
                f"lease {ref} ({rng.choice(('1', '2', '0.5', '0', '4 + serial', 'v / 4', 'inf'))})"
            )
        return " ".join(clauses)

    def _binding(self) -> tuple[str, str]:
        self._bindings += 1
        name = f"b{self._bindings}"
        value = self.write.clean(1) if self.rng.random() < 0.6 else self.write.header(1)
        return name, f"max(0, min(6, {value}))"

    def _unit(self, pool: PoolSpec, scope: Scope, binding: tuple[str, str] | None) -> tuple[str, Held]:
        """`pool (units) [reserve (room)]`; now and then more than can ever fit (R-A-054)."""
        rng, write = self.rng, self.write
        ref = write.pool_ref(pool)
        most = max(1, min(8, pool.room - 1)) if rng.random() < 0.97 else pool.room + 3
        kind = rng.random()
        if pool.name == "reqs":
            units, size = "1", 1
        elif binding and kind < 0.5:
            units, size = binding[0], min(6, most)
        elif kind < 0.5:
            size = rng.randrange(most + 1)
            units = str(size)
        elif kind < 0.75:
            size = most
            units = rng.choice((f"min({most}, 1 + serial)", f"min({most}, x)", f"min({most}, y + 0.5)"))
        elif pool.engine and kind < 0.85:
            size, index = most, "[0]" if self._engine_count(pool) > 1 else ""
            units = f"min({most}, budget_left({pool.engine}{index}))"
        else:
            size = most
            units = write.amount(most, write.header())
        reserve = (
            f" reserve ({rng.choice((str(min(most + 1, pool.room)), '0', '2'))})"
            if rng.random() < 0.15
            else ""
        )
        return f"{ref} ({units}){reserve}", Held(pool, ref, size)

    def _engine_count(self, pool: PoolSpec) -> int:
        return next(stage.count for stage in self.deployment.stages if stage.name == pool.engine)
