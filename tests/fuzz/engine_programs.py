"""One random program with `vllm` stages a seed: small memories, instants that coincide, state that is read.

Costs, gaps and pauses are mostly small whole numbers, so that step ends, arrivals and deadlines often fall on
one instant.
"""

from __future__ import annotations

from random import Random

COSTS = (
    "10", "3 + tokens", "5 + 0.5 * tokens", "0.010 + 0.001 * tokens", "2 + 0.03125 * context_decode",
    "1 + 0.0625 * kv_decode + tokens", "4 + 0.1 * residents + 0.3 * scheduled", "7 + (now > 200) * 3",
    "max(2, decoders) + 0.001 * attention + prefilled", "1 + 0.001 * now", "6 + 0 * tokens",
    "3 + sqrt(context_decode + context_prefill) / 7 + kv_prefill / 64",
)  # fmt: skip
WALKING_COSTS = (
    "4 + ~exp(3)", "3 + queue(engine[0])", "5 + tokens * (1 + kv_usage(engine[0]))", "2 + free(room)",
    "1 + max j in 2 (waiting(engine[j]))",
)  # fmt: skip
ODD_COSTS = (
    "100000000000000000000 + tokens", "(now < 150) * 4", "tokens > 40 ? 0 : 5", "1 / 0 * (tokens > 90) + 6",
)  # fmt: skip
GAUGES = (
    "kv_usage(engine[0])", "running(engine[0]) + waiting(engine[1])", "queue(engine[1])", "now",
    "kv_usage(engine[1]) * running(engine[1])", "free(room)",
)  # fmt: skip
READS = (
    "kv_usage(engine[0])", "running(engine[1])", "waiting(engine[0])", "queue(engine[0])",
    "reusable(engine[0], chat)", "reusable(engine[1], chat)", "now", "busy(engine[1])",
)  # fmt: skip


class EngineProgram:
    """The text of one program, made piece by piece."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.pooled = self.chance(0.3)
        self.stepping = self.chance(0.15)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, *options: object) -> str:
        return str(self.rng.choice(options))

    def text(self) -> str:
        """The program."""
        rng = self.rng
        pieces = [self.engine(), "stage think : delay;", "stage wire : ps(1);"]
        keys = self.pick("", "", "queue by (0 - waited);", "queue by (kv_usage(engine[0]));")
        pieces.append(f"pool room {{ cap {rng.randint(1, 4)}; {keys} }}")
        if self.stepping:
            pieces.append("stage other : step { budget 8; cost 5 + 0.1 * kv_usage(engine[0]); }")
        pieces += [self.workload(), self.session()]
        pieces += [f"gauge g{i} = {self.pick(*GAUGES)};" for i in range(self.rng.choice((0, 0, 1, 2)))]
        pieces.append(self.run())
        return "\n".join(pieces) + "\n"

    # --- stages -----------------------------------------------------------------------------------------

    def engine(self) -> str:
        rng = self.rng
        length = rng.choice((48, 90, 150, 300))
        size = rng.choice((4, 8, 16, 16))
        needed = length // size + 2
        budget = rng.choice((8, 16, 33, 64, 128, 2048))
        options = {
            "max_model_len": length,
            "num_gpu_blocks": needed + rng.choice((0, 2, 5, 12, 40, 400)),
            "block_size": size,
            "max_num_batched_tokens": budget,
            "max_num_seqs": min(budget, rng.choice((1, 2, 4, 8, 32))),
            "async_scheduling": self.pick("true", "true", "false"),
            "enable_prefix_caching": self.pick("true", "true", "false"),
        }
        if self.chance(0.3):
            options["long_prefill_token_threshold"] = min(length, rng.choice((3, 8, 20)))
        if self.chance(0.15) and budget >= length:
            options["enable_chunked_prefill"] = "false"
        if self.chance(0.3):
            options["scheduler_reserve_full_isl"] = "false"
        if self.chance(0.2):
            options["watermark"] = rng.choice((0.05, 0.2))
        if self.chance(0.1):
            options["max_num_scheduled_tokens"] = rng.choice((2, 4, 8))
        lines = [f"{name} {value};" for name, value in options.items()]
        lines.append(self.waiting())
        if self.chance(0.04):
            lines.append(self.pick("group sliding { window 40; }", "prefill_schedule_interval 2;"))
        lines.append(f"cost {self.cost()};")
        return "stage engine[2] : vllm { " + " ".join(lines) + " }"

    def waiting(self) -> str:
        kind = self.rng.random()
        if kind < 0.5:
            return ""
        if kind < 0.65:
            return "waiting priority;"
        if kind < 0.85:
            wait = self.pick(0, 5, 50, 20000, 100000)
            threshold = self.pick(8, 20, 60)
            return f"waiting short_request_first {{ threshold {threshold}; long_max_wait_ms {wait}; }}"
        if kind < 0.95:
            keys = self.pick("prompt_tokens", "0 - waited", "preempted, prompt_tokens", "priority")
            return f"waiting by ({keys});"
        return "waiting batch_job_aware { max_jobs 5; }" if self.chance(0.3) else ""

    def cost(self) -> str:
        kind = self.rng.random()
        cost = self.pick(*(COSTS if kind < 0.85 else WALKING_COSTS if kind < 0.95 else ODD_COSTS))
        self.quick = cost.startswith("0.0")
        return cost

    # --- load -------------------------------------------------------------------------------------------

    def workload(self) -> str:
        rng = self.rng
        self.closed = self.chance(0.2)
        arrive = f"closed({rng.randint(1, 6)})" if self.closed else self.pick(
            f"poisson({rng.choice((0.01, 0.05, 0.2, 1))})", f"batch({rng.randint(1, 25)})",
            f"renewal({rng.choice((1, 3, 10, 25))})", "renewal(1 + floor(~exp(15)))",
        )  # fmt: skip
        self.open = arrive.startswith(("poisson", "renewal"))
        prompt = self.pick(
            "1 + floor(~exp(20))", "5 + 8 * floor(~uniform(0, 6))", "16", "1 + floor(~uniform(0, 60))"
        )
        out = self.pick("1 + floor(~exp(12))", "1 + floor(~uniform(0, 40))", "1", "3", "30")
        return (
            f"workload {{ arrive {arrive}; init {{ set p = {prompt}; set o = {out}; "
            "set text = floor(~uniform(0, 3)); set pri = floor(~uniform(0, 3)); "
            "set turns = 1 + floor(~exp(0.8)); } }"
        )

    def session(self) -> str:
        body = " ".join(self.turn(number) for number in range(self.rng.randint(1, 3)))
        if self.pooled:
            body = f"hold room (1) {{ {body} }}"
        if self.closed:
            again = f"set turns = turns - 1; branch (turns < 1) {{ end; }} run think ({self.gap()});"
            body = f"loop {{ {body} {again} }}"
        return f"session {{ set j = 0; {body} }}"

    def gap(self) -> str:
        return self.pick("1", "5", "10", "20", "~exp(30)", "floor(~exp(10)) + 1", "100")

    def turn(self, number: int) -> str:
        parts = []
        if self.chance(0.7):
            key = self.pick(
                "queue(engine[k])", "running(engine[k]) + waiting(engine[k])", "kv_usage(engine[k])",
                "0 - reusable(engine[k], chat)", "kv_usage(engine[k]), queue(engine[k])",
            )  # fmt: skip
            parts.append(f"choose k in 2 by ({key}); set j = k;")
        else:
            parts.append("set j = ~bernoulli(0.5);")
        if self.chance(0.3):
            parts.append(f"observe before = {self.pick(*READS)};")
        parts.append(self.request())
        if self.chance(0.6):
            parts.append(
                f"observe seen = {self.pick('ttft(chat)', 'e2e(chat)', 'tpot(chat)', 'generated(chat)')};"
                f"observe state = {self.pick(*READS, 'cached_tokens(chat)', 'preempted(chat)', 'itl(chat)')};"
            )
        if self.chance(0.2):
            parts.append(f"run wire ({self.gap()});")
        if self.stepping and self.chance(0.5):
            parts.append(f"run other {self.pick('prefill', 'decode')} (7);")
        if self.chance(0.5):
            parts.append(f"run think ({self.gap()});")
        return " ".join(parts)

    def request(self) -> str:
        clauses = []
        if self.chance(0.4):
            clauses.append("follows chat")
        if self.chance(0.35):
            clauses.append(f"prefix (text, {self.pick(5, 16, 32, 33)})")
        if self.chance(0.25):
            clauses.append(f"abort after ({self.pick(0, 5, 10, 40, '~exp(80)', 'floor(~exp(60))')})")
        if self.chance(0.3):
            clauses.append("priority (pri)")
        if self.chance(0.3):
            clauses.append(f"max_tokens ({self.pick(2, 9, 30)})")
        if self.chance(0.15):
            clauses.append(f"min_tokens ({self.pick(0, 2, 5)})")
        return f"request chat on engine[j] (p, o) {' '.join(clauses)};"

    # --- run --------------------------------------------------------------------------------------------

    def run(self) -> str:
        rng = self.rng
        horizon = rng.choice((40, 137, 300) if self.closed else (40, 137, 300, 800, 2000))
        if self.quick:
            horizon /= 100
        share = rng.choice((0, 0.1, 0.25, 0.5))
        warmup = f"warmup {horizon * share};" if self.chance(0.5) else ""
        arrivals = f"arrivals {rng.randint(1, 15)};" if self.open and self.chance(0.3) else ""
        return f"run {{ horizon {horizon}; {warmup} {arrivals} seed {rng.randint(1, 99)}; }}"
