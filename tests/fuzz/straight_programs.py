"""Random straight programs: sessions wait for a slot and memory, prefill, decode and leave.

They run in a loop of their own (``serq/runtime/straight``). Memory is often too small, so that residents are
preempted, and times are multiples of few numbers, so that what happens often falls on one instant.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.random_text import RandomText


def random_straight_program(seed: int) -> str:
    """The program of ``seed``; the same text for ever."""
    return "\n".join(_Program(Random(seed)).lines())


class _Program(RandomText):
    def __init__(self, rng: Random) -> None:
        super().__init__(rng, "[member]")
        self.slots = rng.randint(1, 9)
        self.caches = self.members == 1 and rng.random() < 0.35

    def lines(self) -> list[str]:
        """The program, a line each."""
        rng = self.rng
        block = self.maybe(0.8, f"block {self.pick('4', '16', '3', '1')}; ")
        arrivals = self.arrivals()
        limit = "" if "batch" in arrivals else self.maybe(0.15, "arrivals 7; ")
        units = rng.choice((48, 96, 96, 192, 480, 4800))
        return [
            f"pool slots{self.family} {{ cap {self.slots}; admit via gpu; }}",
            f"pool kv{self.family} {{ cap {units}; {block}preempt lifo; }}",
            self.engine(),
            "stage think : delay;",
            f"workload {{ arrive {arrivals}; init {{ set want = {self.want()}; {self.member()}}} }}",
            "session {",
            *self.body(),
            "}",
            f"run {{ horizon {self.pick('10', '20', '60')}; {self.maybe(0.3, 'warmup 5; ')}"
            f"seed {rng.randint(1, 99)}; {limit}}}",
        ]

    def engine(self) -> str:
        budget = self.maybe(0.85, f"budget {self.pick('9', '16', '32', '64', '256')}; ")
        serve = self.maybe(0.3, "serve decode first; ")
        memory = self.maybe(0.85, "memory kv; ")
        cost = self.pick(
            "0.5",
            "0.25",
            "0.125 + 0.0625 * tokens",
            "0.1 + 0.005 * tokens",
            "0.01 + 0.001 * kv_decode",
            "0.25 + 0.001 * kv_prefill",
            "0.25 + 0.25 * (decoders > 2)",
            "0.25 + 0.25 * (prefilled > 0)",
            "0.1 + 0.01 * now",
            "0.4 - 0.01 * now",
            "0.1 + 0.0001 * attention",
            "0.02 * residents",
        )
        return f"stage gpu{self.family} : step {{ {budget}{serve}{memory}cost {cost}; }}"

    def arrivals(self) -> str:
        return self.pick(
            f"batch({self.rng.randint(1, 20)})",
            f"renewal({self.pick('0.125', '0.25', '0.5', '1', '2.5')})",
            f"renewal({self.pick('0.125', '0.5')})",
            f"poisson({self.pick('0.5', '2', '6')})",
        )

    def want(self) -> str:
        eighths = "3 * serial - 24 * floor(serial / 8)"
        return self.pick("8", eighths, "floor(~uniform(1, 40))", "floor(~exp(20))")

    def tokens(self) -> str:
        return self.pick(
            str(self.rng.randint(1, 60)), "want + 1", "want", "want - 4",
            "10 + serial - 5 * floor(serial / 5)", "max(0, want - 12)", "0",
        )  # fmt: skip

    def body(self) -> list[str]:
        index = self.index
        known = "max(known, computed + 1)"
        units = self.pick("8", "want", "16", "4", f"min({known}, budget_left(gpu{index}))", "want + 20", "0")
        reserve = self.maybe(0.4, f" reserve ({known})")
        reuse = keep = cached = ""
        if self.caches:
            units = self.pick(units, f"min({known}, cachedin(kv) + budget_left(gpu))")
            reuse = self.pick("", " reuse (known - 1)", " reuse (known)")
            keep = self.pick(" cache (known + want)", " cache (1000)", " cache (want)")
            cached = self.pick(" - cached", " - cached", "")
        where = "" if self.members == 1 and self.rng.random() < 0.5 else f" on gpu{index}"
        prefill = f"    prefill{where} (max(0, known{cached})) growing kv{index};"
        return [
            self.maybe(0.5, "  turn;"),
            "  set sent = now;",
            f"  set known = {self.tokens()};",
            f"  hold slots{index} (1), kv{index} ({units}){reserve}{reuse} {{",
            f"    set known = {known};",
            self.maybe(0.2, "    observe admitted = now;"),
            prefill,
            "    branch (want > 4) { observe ttft = now - sent; }",
            f"    decode{where} ({self.tokens()}) growing kv{index};",
            self.maybe(0.3, "    observe held = now;"),
            f"  }}{keep}",
            "  observe e2e = now - sent;",
        ]
