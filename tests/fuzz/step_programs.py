"""Random programs whose engines decode for long, so that planned runs of all lengths begin, are read and cut.

Times are multiples of few numbers, so that ends of iterations, arrivals and ends of other work often fall on
one instant.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.random_text import RandomText


def random_step_program(seed: int) -> str:
    """The program of ``seed``; the same text for ever."""
    return "\n".join(_Program(Random(seed)).lines())


class _Program(RandomText):
    def __init__(self, rng: Random) -> None:
        super().__init__(rng, "[serial - MEMBERS * floor(serial / MEMBERS)]")
        self.engine_admits = rng.random() < 0.6
        self.memory = rng.random() < 0.85
        self.settled = rng.random() < 0.3
        """Whether somebody waits at a pool that no engine admits to."""

    def lines(self) -> list[str]:
        """The program, a line each."""
        rng = self.rng
        slots, units = rng.randint(1, 7), rng.choice((40, 64, 120, 400, 4000, 4000))
        admit = "admit via gpu; " if self.engine_admits else ""
        order = self.maybe(0.25, self.pick("queue by (want); ", "queue by (-want); ", "queue by (waited); "))
        block = self.maybe(0.6, f"block {self.pick('4', '16', '3', '2.5')}; ")
        evict = self.maybe(0.2, "evict by (last); ")
        pools = [
            f"pool slots{self.family} {{ cap {slots}; {admit}{order}}}",
            f"pool kv{self.family} {{ cap {units}; {block}{self.maybe(0.4, 'preempt lifo; ')}{evict}}}",
        ]
        gauges = [f"gauge g = {self.read()};"] if rng.random() < 0.25 else []
        stages = [self.engine(), "stage think : delay;", "stage desk : fifo;"]
        rng.shuffle(stages)
        seed = rng.randint(1, 99)
        return [
            *(pools + stages if rng.random() < 0.5 else stages + pools),
            *gauges,
            f"workload {{ arrive {self.arrivals()}; init {{ set want = {self.want()}; }} }}",
            "session {",
            *self.body(),
            "}",
            f"run {{ horizon {self.pick('10', '20', '60')}; {self.maybe(0.4, 'warmup 5; ')}seed {seed}; }}",
        ]

    def engine(self) -> str:
        budget = self.maybe(0.7, f"budget {self.pick('8', '64', '5', '20.5', '4 + decoders', '64 - now')}; ")
        chunk = self.maybe(0.4, f"chunk {self.pick('4', '7.5', '16')}; ")
        serve = self.maybe(
            0.4, self.pick("serve decode first; ", "serve by (remaining); ", "serve exclusive prefill; ")
        )
        memory = "memory kv; " if self.memory else ""
        cost = self.pick(
            "0.5",
            "0.25",
            "0.1 + 0.05 * tokens",
            "0.01 + 0.001 * kv_decode" if self.memory else "0.03 * residents",
            "0.1 + 0.01 * now",
            "0.25 + 0.25 * (decoders > 2)",
            "0.2 + 0.01 * queue(desk)",
            "~exp(0.2)",
            "0.1 + 0.0001 * attention",
        )
        return f"stage gpu{self.family} : step {{ {budget}{chunk}{serve}{memory}cost {cost}; }}"

    def arrivals(self) -> str:
        rng = self.rng
        return self.pick(
            f"batch({rng.randint(1, 12)})",
            f"renewal({self.pick('0.5', '1', '2.5', '7')})",
            f"poisson({self.pick('0.2', '1')})",
            f"closed({rng.randint(1, 6)})",
        )

    def want(self) -> str:
        return self.pick(
            "8", "3 * serial - 24 * floor(serial / 8)", "~uniform(1, 9)", "floor(~uniform(1, 40))"
        )

    def amount(self, *, whole: float = 0.8) -> str:
        rng = self.rng
        if rng.random() < whole:
            return self.pick(
                str(rng.randint(1, 60)), "want + 1", "10 + serial - 5 * floor(serial / 5)", "100"
            )
        return self.pick("want", "7.5", "want / 3")

    def read(self) -> str:
        gpu, kv, slots = (f"{name}{'[0]' if self.members > 1 else ''}" for name in ("gpu", "kv", "slots"))
        return self.pick(
            f"queue({gpu})", f"busy({gpu})", f"work({gpu}) + 0", f"budget_left({gpu})", "queue(desk)",
            f"used({kv})", f"free({kv})", f"queued({slots})", f"used({slots}) + used({kv})",
        )  # fmt: skip

    # --- the session ------------------------------------------------------------------------------------

    def body(self) -> list[str]:
        rng = self.rng
        inner = self.served()
        keep = self.maybe(0.3, f" cache ({self.pick('want', '100', 'computed')})")
        hold = f"  hold slots{self.index} (1), kv{self.index} ({self.units()}) {{"
        if rng.random() < 0.2:
            hold = f"  hold kv{self.index} ({self.units()}) {{"
        before = [f"  run think ({self.pick('0.5', '1', '2', 'want / 4')});"] if rng.random() < 0.5 else []
        observe = [f"  observe seen = {self.read()};"]
        after = [f"  run desk ({self.pick('0.5', '0.25', '1')});"] if rng.random() < 0.4 else []
        turn = [*before, *observe, hold, *inner, "  }" + keep, "  observe done = now;", *after]
        if rng.random() < 0.3:
            return [*turn, *turn]
        return turn

    def units(self) -> str:
        return self.pick(
            "8", "want", "16", "want + 20", "4", f"{self.read()} * 0 + 8" if self.settled else "12"
        )

    def served(self) -> list[str]:
        rng = self.rng
        growing = f" growing kv{self.index}" if rng.random() < 0.75 else ""
        out = []
        if rng.random() < 0.8:
            out.append(f"    run gpu{self.index} prefill ({self.amount()}){growing};")
        if rng.random() < 0.2:
            out.append(f"    observe first = {self.read()};")
        out.append(f"    run gpu{self.index} decode ({self.amount(whole=0.9)}){growing};")
        if rng.random() < 0.15:
            out.append(f"    grow kv{self.index} ({self.pick('4', '3', 'want')});")
        if rng.random() < 0.25:
            out.append(f"    run think ({self.pick('1', '0.5', '3')});")
            out.append(f"    run gpu{self.index} decode ({self.amount()}){growing};")
        return out
