"""Write the tables of split-study.md anew: those of the measured rows, with `--serving` those of the runs.

Usage: python docs/split_study.py            some seconds
       python docs/split_study.py --serving  several minutes: 140 runs
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import serq
from serq.ir.nodes import with_settings
from serq.kernels.fia.points import Heads, measured
from serq.studies.attention_split import (
    GATES,
    MAIN_PREFILL,
    RANGE_OF_THREE,
    RESOLUTION,
    SignedRank,
    amdahl,
    decode_keys_that_pay,
    deployments,
    fitted_gain,
    gain,
    mixed_work,
    over_area,
    repeat_spread,
    runs_to_see,
    shapes,
    signed_rank,
    span,
    table,
)
from serq.studies.replications import Interval, interval, paired_change

PAGE: Final = Path(__file__).parent / "split-study.md"
PROGRAMS: Final = PAGE.parents[1] / "examples" / "attention_split"
MODELS: Final = {"Qwen3.5-27B": "qwen3_5_27b.sq", "Qwen3-14B": "qwen3_14b.sq"}
SEEDS: Final = range(1, 11)
HORIZON: Final = 1000.0
WARMUP: Final = 250.0


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column holds words, the others figures."""
    rule = "|".join(["---", *("--:" for _ in headings[1:])])
    lines = [" | ".join(headings), rule, *(" | ".join(row) for row in rows)]
    return "".join(f"| {line} |\n" if line != rule else f"|{line}|\n" for line in lines)


def percent(value: float, digits: int = 1) -> str:
    """A share."""
    return f"{100 * value:.{digits}f} %"


def change_of(value: float, digits: int = 1) -> str:
    """A relative change, with its sign."""
    return f"{100 * value:+.{digits}f} %"


# --- what the measured rows say -----------------------------------------------------------------------------


def statistics() -> str:
    """The claims of the table, recomputed."""

    def row(name: str, gains: Sequence[float], test: SignedRank) -> Sequence[str]:
        ordered = sorted(gains)
        middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
        unclear = sum(abs(value) < RESOLUTION for value in gains)
        loses = sum(value <= -RESOLUTION for value in gains)
        return (
            name, f"{len(gains)}", change_of(middle), f"{change_of(ordered[0])} to {change_of(ordered[-1])}",
            f"{len(gains) - unclear - loses}", f"{unclear}", f"{loses}",
            f"{test.above} of {test.size}", f"{test.statistic:g}", f"{test.probability:.3g}",
        )  # fmt: skip

    kinds = {
        "40 rows, gains as printed": [row.paired_gain for row in table()],
        "40 rows, from the printed times": [gain(row) for row in table()],
        "32 shapes, repeats averaged": [row.paired_gain for row in shapes()],
    }
    headings = ["", "rows", "median gain", "range", "gain", "unclear", "lose", "above 5 %", "W", "p"]
    tests = {name: signed_rank(gains, 0.05) for name, gains in kinds.items()}
    return markdown(headings, (row(name, gains, tests[name]) for name, gains in kinds.items()))


def resolution() -> str:
    """How far the same shape differs from itself."""
    return (
        f"A time that was measured again for the same shape differs with a standard deviation of\n"
        f"{percent(repeat_spread(), 2)}, a difference of two of them with "
        f"{percent(repeat_spread() * 2**0.5, 2)}.\n"
    )


def over_span() -> str:
    """One call and two over the prefill length, and the straight line through each."""
    one, two = over_area(lambda row: row.mixed), over_area(lambda row: row.split)
    rows = [
        (
            f"{row.prefill_tokens}", f"{1e3 * row.mixed:.3f}", f"{1e3 * row.split:.3f}",
            f"{1e3 * (row.mixed - row.split):.3f}", change_of(gain(row)),
        )
        for row in span()
    ]  # fmt: skip
    lines = [
        f"{name}: {1e3 * line.intercept:.3f} ms + {1e3 * line.slope:.4f} ms for a million pairs.\n"
        for name, line in (("One call", one), ("Two calls", two))
    ]
    headings = ["prefill tokens", "one call [ms]", "two [ms]", "difference [ms]", "gain"]
    return markdown(headings, rows) + "\n" + "".join(lines)


def gates() -> str:
    """The regret of each gate over all deployments."""
    rows = []
    for gate in GATES:
        wrong = [deployment for deployment in deployments() if deployment.regret(gate)]
        worst = max(deployments(), key=lambda deployment: deployment.relative_regret(gate))
        mean = sum(deployment.relative_regret(gate) for deployment in deployments()) / len(deployments())
        told = f"{worst.name}: {percent(worst.relative_regret(gate))}, {1e3 * worst.regret(gate):.2f} ms"
        rows.append(
            (gate.name, f"{len(wrong)} of {len(deployments())}", percent(mean, 2), told if wrong else "-")
        )
    return markdown(["gate", "loses in", "mean regret", "worst"], rows)


def regrets() -> str:
    """Every deployment in which some gate but `never` loses, in milliseconds a mixed step."""
    chosen = [gate for gate in GATES if gate.name != "never"]
    rows = [
        (
            deployment.name,
            f"{deployment.row.heads.num_heads}/{deployment.row.heads.num_kv_heads} x "
            f"{deployment.row.heads.head_dim}",
            change_of(gain(deployment.row)),
            *(f"{1e3 * deployment.regret(gate):.2f}" if deployment.regret(gate) else "-" for gate in chosen),
        )
        for deployment in deployments()
        if any(deployment.regret(gate) for gate in chosen)
    ]
    return markdown(["deployment", "heads", "gain", *(gate.name for gate in chosen)], rows)


def decodes() -> str:
    """Keys of decodes from which two calls pay, for what a second call might cost."""
    costs = (5e-6, 20e-6, 50e-6)
    rows = []
    for name, heads in (("24/4 x 256", Heads(24, 4, 256)), ("40/8 x 128", Heads(40, 8, 128)),
                        ("8/1 x 128", Heads(8, 1, 128)), ("3/1 x 256", Heads(3, 1, 256))):  # fmt: skip
        keys = [decode_keys_that_pay(heads, cost) for cost in costs]
        rows.append((name, *("never" if value is None else f"{value:,}" for value in keys)))
    return markdown(["heads", *(f"second call {1e6 * cost:.0f} us" for cost in costs)], rows)


def by_hand() -> str:
    """Amdahl's law with the shares and gains of the pull request, and the runs that it takes to see it."""
    row = measured(MAIN_PREFILL, Heads(24, 4, 256), 1)
    assert row is not None
    effect = amdahl(0.08, gain(row))
    rows = [
        ("8 % of the time, the gain of 24/4 x 256", f"{change_of(effect, 2)} throughput"),
        ("unpaired runs a side, where three runs lie 1.4 % apart",
         f"{runs_to_see(effect, 0.014 / RANGE_OF_THREE)}"),
        ("the same where they lie 5.3 % apart", f"{runs_to_see(effect, 0.053 / RANGE_OF_THREE)}"),
    ]  # fmt: skip
    return markdown(["", "by hand"], rows)


def by_step() -> str:
    """The kernel's gain in steps like those of the runs, by the fit, and what Amdahl's law makes of it."""
    heads = Heads(24, 4, 256)
    steps = {
        "23 decodes, 3968 tokens behind 4224: as measured": mixed_work(23, 3968, 4224),
        "30 decodes, 4066 tokens behind 4096: a prompt's second chunk": mixed_work(30, 4066, 4096),
        "30 decodes, 4066 tokens behind none: its first": mixed_work(30, 4066, 0),
    }
    gains = {name: fitted_gain(work, heads) for name, work in steps.items()}
    rows = [(name, percent(saved), change_of(amdahl(0.08, saved), 2)) for name, saved in gains.items()]
    return markdown(["step of 24/4 x 256", "two calls save, by the fit", "on 8 % of the time"], rows)


def break_even() -> str:
    """What a graph has to save in a mixed step so that two calls do not pay."""
    wanted = ("Qwen3.5-27B TP 1", "Qwen3.5-27B TP 4", "Qwen3.5-27B TP 8", "Qwen3-14B TP 1", "Qwen3-32B TP 1",
              "Qwen3.5-0.8B TP 1", "Qwen3.5-0.8B TP 8")  # fmt: skip
    rows = [
        (deployment.name, f"{deployment.model.full_attention_layers}", f"{1e3 * deployment.saving:+.2f} ms")
        for deployment in deployments()
        if deployment.name in wanted
    ]
    return markdown(["deployment", "full-attention layers", "two calls save in a mixed step"], rows)


# --- what it does to serving --------------------------------------------------------------------------------


class Run(NamedTuple):
    """What one run gave: times in seconds, rates by the second, shares."""

    throughput: float
    ttft: float
    tpot: float
    e2e: float
    mixed: float
    attention: float


@cache
def run(model: str, clients: int, two_calls: int, launch: float, seed: int, horizon: float = HORIZON) -> Run:
    """One run of a program of the study."""
    program = serq.compile(
        PROGRAMS / MODELS[model],
        sets={"clients": clients, "two_calls": two_calls, "launch": launch},
        horizon=horizon,
        warmup=WARMUP * horizon / HORIZON,
    )
    report = serq.run(replace(program, ir=with_settings(program.ir, {"seed": seed})))
    steps = report.steps[report.steps["start"] >= report.records.warmup]
    mixed = (steps["prefill_tokens"] > 0) & (steps["prefill_tokens"] < steps["tokens"])
    (prices,) = report.to_dict()["prices"]
    attention = sum(prices["operators"]["attention"].values())
    engine = report.engines.iloc[0]
    return Run(
        throughput=float(steps["tokens"].sum()) / (horizon - report.records.warmup),
        ttft=float(engine["ttft_mean"]),
        tpot=float(engine["tpot_mean"]),
        e2e=float(engine["e2e_mean"]),
        mixed=float(mixed.mean()),
        attention=attention / prices["seconds"],
    )


def runs(model: str, clients: int, two_calls: int, launch: float = 0.0) -> list[Run]:
    """One run a seed."""
    return [run(model, clients, two_calls, launch, seed) for seed in SEEDS]


def change(before: Sequence[Run], after: Sequence[Run], figure: Callable[[Run], float]) -> str:
    """The paired change of a figure with its 95 % interval."""
    return with_interval(paired_change(list(map(figure, before)), list(map(figure, after))))


def with_interval(found: Interval) -> str:
    """A relative change with the half-width of its interval."""
    assert found.mean is not None and found.half_width is not None
    return f"{100 * found.mean:+.2f} ± {100 * found.half_width:.2f} %"


def serving() -> str:
    """Two calls against one, end to end."""
    rows = []
    for model in MODELS:
        for clients in (32, 100):
            one, two = runs(model, clients, 0), runs(model, clients, 1)
            share = interval([result.attention for result in one]).mean
            mixed = interval([result.mixed for result in one]).mean
            figures = (lambda r: r.throughput, lambda r: r.ttft, lambda r: r.tpot, lambda r: r.e2e)
            changes = [change(one, two, figure) for figure in figures]
            rows.append((f"{model}, {clients} clients", percent(mixed, 0), percent(share), *changes))
    headings = ["", "mixed steps", "attention", "tokens/s", "TTFT", "TPOT", "end to end"]
    return markdown(headings, rows) + "\n" + stated()


def graph() -> str:
    """Two calls without a graph against one call with one, for what the graph saves in a mixed step."""
    rows = []
    for model in MODELS:
        one = runs(model, 32, 0)
        changes = [
            change(one, runs(model, 32, 1, launch), lambda r: r.throughput)
            for launch in (0.0, 0.005, 0.01, 0.02)
        ]
        rows.append((f"{model}, 32 clients", *changes))
    headings = ["tokens/s against one call", "graph saves 0 ms", "5 ms", "10 ms", "20 ms"]
    return markdown(headings, rows) + "\n" + stated()


def stated() -> str:
    """Where the figures are from."""
    return (
        f"`python docs/split_study.py --serving`, {date.today():%Y-%m-%d}: {len(SEEDS)} seeds, the same\n"
        f"for all; {HORIZON - WARMUP:g} s behind {WARMUP:g} s of warm-up; "
        f"change by pairs with its 95 % interval.\n"
    )


SMALL: Final[Mapping[str, Callable[[], str]]] = {
    made.__name__: made
    for made in (statistics, resolution, over_span, gates, regrets, decodes, by_hand, by_step, break_even)
}
LONG: Final[Mapping[str, Callable[[], str]]] = {made.__name__: made for made in (serving, graph)}

_TABLE: Final = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(page: str, tables: Mapping[str, str]) -> str:
    """The page with these tables in place of those that it has."""

    def now(found: re.Match[str]) -> str:
        return f"{found[1]}{tables[found[2]]}{found[3]}" if found[2] in tables else found[0]

    return _TABLE.sub(now, page)


if __name__ == "__main__":
    wanted = {**SMALL, **LONG} if "--serving" in sys.argv[1:] else SMALL
    tables = {name: make() for name, make in wanted.items()}
    PAGE.write_text(refreshed(PAGE.read_text("utf-8"), tables), "utf-8")
