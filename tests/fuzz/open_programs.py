"""One random program a seed whose sessions send requests, think, and note what came of it.

Like :mod:`tests.fuzz.engine_programs`: small memories, and instants that coincide.
"""

from __future__ import annotations

from tests.fuzz.engine_programs import EngineProgram

NOTES = (
    "ttft(chat)", "e2e(chat)", "tpot(chat)", "itl(chat)", "generated(chat)", "cached_tokens(chat)",
    "preempted(chat)", "queue_time(chat)", "stopped(chat)", "rejected(chat)", "~exp(3)", "now", "turn_no",
    "sent(chat)", "first_token(chat)", "last_token(chat)", "prompt_tokens(chat)", "p + o", "serial", "new",
    "pri + more", "sum i in 3 (i * p)",
)  # fmt: skip


class OpenProgram(EngineProgram):
    """The text of one program."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.count = self.rng.choice((1, 1, 1, 2, 3))
        self.talks = self.chance(0.4)
        """Whether sessions send more than one request."""

    def text(self) -> str:
        """The program."""
        parts = (self.executor(), self.engine(), "stage think : delay;", self.workload(), self.session())
        return "\n".join((*parts, self.run())) + "\n"

    def executor(self) -> str:
        """An executor, for some programs."""
        self.priced = self.chance(0.12)
        kind = self.pick(
            'roofline { model "Qwen3-8B"; device "910B3"; }', 'table { fia ascend950; model "Qwen3.5-27B"; }'
        )
        return f"executor chip : {kind}" if self.priced else ""

    def engine(self) -> str:
        return super().engine().replace("stage engine[2]", f"stage engine[{self.count}]")

    def waiting(self) -> str:
        return super().waiting() if self.chance(0.5) else ""

    def cost(self) -> str:
        if self.priced:
            self.quick = True
            return "via chip"
        while True:
            cost = super().cost()
            other = "room" in cost or ("engine[" in cost and self.count < 2)
            if not other or "kv_usage(engine[0])" in cost or "queue(engine[0])" in cost:
                return cost

    def workload(self) -> str:
        text = super().workload()
        if self.priced or (self.closed and self.chance(0.4)):
            self.closed, self.open = False, True
            rate = self.rng.choice((5, 20, 80) if self.priced else (0.02, 0.1, 0.5))
            text = f"workload {{ arrive poisson({rate}); {text[text.index('init') :]}"
        return text

    def session(self) -> str:
        if self.count == 1:
            pick = "set j = 0;"
        elif self.chance(0.3):
            key = self.pick(
                "queue(engine[k])", "running(engine[k]) + waiting(engine[k])", "kv_usage(engine[k])",
                "kv_usage(engine[k]), queue(engine[k])",
            )  # fmt: skip
            pick = f"choose k in {self.count} by ({key}); set j = k;"
        else:
            pick = f"set j = floor(~uniform(0, {self.count}));"
        notes = self.notes()
        if self.talks:
            return f"session {{ set j = 0; {self.conversation(pick, notes)} }}"
        turn = self.pick("turn;", "turn; set turn_no = turn_no * 2;" if self.chance(0.2) else "")
        body = f"set j = 0; {turn} {pick} {self.request()} {notes}"
        if self.chance(0.15):
            body = f"branch (p > 20) {{ {body} }} else {{ {self.pick('', 'end;', self.request())} }}"
            body = f"set j = 0; {body}"
            if self.chance(0.5):
                body += self.notes()
        return f"session {{ {body} }}"

    def conversation(self, pick: str, notes: str) -> str:
        """Requests one after the other, and pauses between them."""
        gap = self.pick("~exp(30)", "~uniform(1, 9)", "~exp(9) + 0.01", "10", "floor(~exp(10)) + 1")
        turn = f"{self.pick('turn;', '')} {pick} {self.request()} {notes}"
        if self.chance(0.5):
            return f"{turn} run think ({gap}); {pick} {self.request()} {self.notes()}"
        return f"loop {{ {turn} set turns = turns - 1; branch (turns < 1) {{ end; }} run think ({gap}); }}"

    def notes(self) -> str:
        """What follows a request: samples, and what they are made of."""
        text = ""
        for i in range(self.rng.randint(0, 3)):
            note = f"observe note{i} = {self.pick(*NOTES)};"
            change = self.pick("set p = p + generated(chat);", "choose k in 3 by (k * (p - 20)); set o = k;")
            text += f" {change}" if self.chance(0.1) else ""
            if self.chance(0.15):
                note = f"branch (p > {self.pick(5, 30)}) {{ {note} }} else {{ {self.pick('', 'end;')} }}"
            text += f" {note}"
        return text

    def request(self) -> str:
        clauses = []
        if self.talks and self.chance(0.6):
            clauses.append("follows chat")
        elif self.chance(0.35):
            clauses.append(f"prefix (text, {self.pick(5, 16, 32, 33)})")
        if self.chance(0.1):
            clauses.append("priority (pri)")
        if self.chance(0.2):
            clauses.append("class (pri)")
        if self.chance(0.2):
            clauses.append(f"max_tokens ({self.pick(2, 9, 30)})")
        if self.chance(0.1):
            clauses.append(f"min_tokens ({self.pick(0, 2, 5)})")
        if self.chance(0.03):
            clauses.append(f"abort after ({self.pick(0, 5, 10, 40)})")
        return f"request chat on engine[j] (p, o) {' '.join(clauses)};"
