"""Random programs of engines that nobody looks at: plans that are not followed to every event.

They are like those that people write: sessions of some turns, which wait for slots and blocks, prefill and
decode. Times are multiples of few numbers, so that what happens often falls on one instant.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.random_text import RandomText


def random_unwatched_program(seed: int) -> str:
    """The program of ``seed``; the same text for ever."""
    return "\n".join(_Program(Random(seed)).lines())


class _Program(RandomText):
    def __init__(self, rng: Random) -> None:
        super().__init__(rng, "[member]")
        self.engine_admits = self.members > 1 or rng.random() < 0.85
        self.block = rng.choice((None, 4, 16, 3, 16))
        self.lifo = rng.random() < 0.6
        self.caches = rng.random() < 0.25
        self.budget = rng.choice((8, 32, 64, 256, 20.5, None))

    def lines(self) -> list[str]:
        """The program, a line each."""
        rng = self.rng
        admit = "admit via gpu; " if self.engine_admits else ""
        order = self.maybe(0.2, self.pick("queue by (want); ", "queue by (-want); "))
        block = f"block {self.block}; " if self.block else ""
        lifo = "preempt lifo; " if self.lifo else ""
        units = rng.choice((48, 96, 192, 480, 4800))
        stages = [self.engine(), "stage think : delay;", "stage desk : fifo;"]
        rng.shuffle(stages)
        return [
            f"pool slots{self.family} {{ cap {rng.randint(1, 8)}; {admit}{order}}}",
            f"pool kv{self.family} {{ cap {units}; {block}{lifo}}}",
            *stages,
            f"workload {{ arrive {self.arrivals()}; init {{ set want = {self.want()}; {self.member()}}} }}",
            "session {",
            *self.body(),
            "}",
            f"run {{ horizon {self.pick('10', '20', '60')}; {self.maybe(0.3, 'warmup 5; ')}"
            f"seed {rng.randint(1, 99)}; }}",
        ]

    def engine(self) -> str:
        budget = "" if self.budget is None else f"budget {self.budget}; "
        chunk = self.maybe(0.25, f"chunk {self.pick('4', '7.5', '16')}; ")
        serve = self.maybe(0.3, "serve decode first; ")
        cost = self.pick(
            "0.5",
            "0.25",
            "0.125 + 0.0625 * tokens",
            "0.1 + 0.005 * tokens",
            "0.01 + 0.001 * kv_decode",
            "0.25 + 0.25 * (decoders > 2)",
            "0.25 + 0.25 * (prefilled > 0)",
            "0.1 + 0.01 * now",
            "0.1 + 0.0001 * attention",
            "0.02 * residents",
        )
        return f"stage gpu{self.family} : step {{ {budget}{chunk}{serve}memory kv; cost {cost}; }}"

    def arrivals(self) -> str:
        return self.pick(
            f"batch({self.rng.randint(1, 20)})",
            f"renewal({self.pick('0.125', '0.5', '1', '2.5')})",
            f"poisson({self.pick('0.5', '2')})",
            f"closed({self.rng.randint(1, 9)})",
        )

    def want(self) -> str:
        eighths = "3 * serial - 24 * floor(serial / 8)"
        return self.pick("8", eighths, "floor(~uniform(1, 40))", "~uniform(1, 9)")

    def tokens(self) -> str:
        if self.rng.random() < 0.06:
            return self.pick("want / 3", "7.5", "0")
        return self.pick(
            str(self.rng.randint(1, 60)), "want + 1", "10 + serial - 5 * floor(serial / 5)", "floor(want)"
        )

    def body(self) -> list[str]:
        """One to three turns, with or without a pause between them."""
        rng = self.rng
        head = self.maybe(0.3, "  run think (0.5);")
        turns = rng.choice((1, 1, 2))
        lines = [head] if head else []
        for number in range(turns):
            lines += self.turn()
            if number + 1 < turns or rng.random() < 0.2:
                pause = self.pick("run think (want / 8);", "run desk (0.25);", "observe between = now;")
                lines.append(f"  {pause}")
        return lines

    def turn(self) -> list[str]:
        rng, index = self.rng, self.index
        known = "max(known, computed + 1)"
        left = f"min({known}, budget_left(gpu{index}))"
        units = self.pick("8", "floor(want)", "16", "4", left, "want + 20")
        if not self.engine_admits and "budget_left" in units:
            units = "12"
        reserve = self.maybe(0.4, f" reserve ({known})")
        reuse = " reuse (known)" if self.caches else ""
        keep = " cache (known + 100)" if self.caches else ""
        growing = f" growing kv{index}" if rng.random() < 0.85 else ""
        slots = f"slots{index} (1), " if self.members > 1 or rng.random() < 0.9 else ""
        inner = []
        if rng.random() < 0.9:
            inner.append(f"    run gpu{index} prefill (known{' - cached' if self.caches else ''}){growing};")
            inner.append("    branch (want > 4) { observe ttft = now - sent; }")
        inner.append(f"    run gpu{index} decode ({self.tokens()}){growing};")
        if rng.random() < 0.15:
            inner.append(f"    run think ({self.pick('1', '0.5', '3')});")
            inner.append(f"    run gpu{index} decode ({self.tokens()}){growing};")
        return [
            "  set sent = now;",
            f"  set known = {self.tokens()};",
            f"  hold {slots}kv{index} ({units}){reserve}{reuse} {{",
            f"    set known = {known};",
            *inner,
            f"  }}{keep}",
            "  observe e2e = now - sent;",
        ]
