"""Engines over time: who runs, who waits, how full the memory is, what steps are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from serq.errors import UsageError
from serq.results.plots.over_time import Slices, slices_of, spans
from serq.results.plots.style import COLOURS, entitle, legend, new_figure, styled
from serq.results.step_layouts import lay_out
from serq.results.tables import member_namer
from serq.runtime.records import Records
from serq.runtime.request_records import EngineRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ENGINES = 8


@dataclass(frozen=True, slots=True)
class EngineTimeline:
    """Averages over slices of time at one engine: requests running and waiting, share of blocks in use."""

    name: str
    time: Sequence[float]
    running: Sequence[float]
    waiting: Sequence[float]
    kv_usage: Sequence[float]


@dataclass(frozen=True, slots=True)
class StepShares:
    """Tokens a second at one engine over slices of time, by the kind of what they belong to."""

    name: str
    time: Sequence[float]
    tokens: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """The tokens of every step of one engine, sorted, and the most that a step may have."""

    name: str
    tokens: Sequence[int]
    budget: int


def shown_engines(records: Records) -> list[EngineRow]:
    """The engines that a figure shows, the first eight. Raises UsageError where no engine made a step."""
    engines = [engine for engine in records.engines if len(engine.table)]
    if not engines:
        raise UsageError("there is no step of a `vllm` stage to draw")
    return engines[:_MOST_ENGINES]


def timelines(records: Records) -> list[EngineTimeline]:
    """One entry an engine; between two steps the state is that after forming the earlier one."""
    engines = shown_engines(records)
    slices = slices_of(engines)
    return [_timeline(engine, member_namer(records.engines)(engine), slices) for engine in engines]


def _timeline(engine: EngineRow, name: str, slices: Slices) -> EngineTimeline:
    table = engine.table
    starts, ends = spans(engine)
    usable = _usable_blocks(engine)
    usage = [1 - free / usable for free in table.free_blocks]
    return EngineTimeline(
        name,
        slices.middles(),
        slices.average(starts, ends, table.running),
        slices.average(starts, ends, table.waiting),
        slices.average(starts, ends, usage),
    )


def _usable_blocks(engine: EngineRow) -> int:
    """Blocks that requests can hold; of a run that was killed maybe only the most that were ever free."""
    blocks = dict(engine.options).get("num_gpu_blocks")
    if blocks is None:
        return max(1, *engine.table.free_blocks)
    return max(1, int(blocks) - 1)  # one block is the null block


def timeline(records: Records, of: str = "") -> Figure:
    """Requests that run and wait, and the use of the KV cache, over time."""
    rows = timelines(records)
    with styled():
        figure, axes = new_figure(3, 1, height=5.2, sharex=True)
        panels = [row[0] for row in axes]
        for row in rows:
            panels[0].plot(row.time, row.running, label=row.name)
            panels[1].plot(row.time, row.waiting, label=row.name)
            panels[2].plot(row.time, [100 * usage for usage in row.kv_usage], label=row.name)
        panels[0].set_ylabel("running")
        panels[1].set_ylabel("waiting")
        panels[2].set(ylabel="KV in use [%]", xlabel="time [s]", ylim=(0, 105))
        for panel in panels[:2]:
            panel.set_ylim(0, max(1.0, panel.get_ylim()[1]))
        legend(panels[0], ncols=4, loc="upper left", bbox_to_anchor=(0, 1.25))
        entitle(figure, "Requests and KV cache over time", of)
    return figure


def budget_uses(records: Records) -> list[BudgetUse]:
    """One entry an engine."""
    return [
        BudgetUse(member_namer(records.engines)(engine), sorted(engine.table.tokens), _budget(engine))
        for engine in shown_engines(records)
    ]


def _budget(engine: EngineRow) -> int:
    return int(dict(engine.options)["token_budget"] or 0)


def budget(records: Records, of: str = "") -> Figure:
    """The share of steps with at most so many tokens, and the budget as a line."""
    with styled():
        figure, axes = new_figure(height=3.0)
        panel = axes[0][0]
        rows = budget_uses(records)
        for place, use in enumerate(rows):
            count, colour = len(use.tokens), COLOURS[place % len(COLOURS)]
            shares = [(i + 1) / count for i in range(count)]
            panel.step(use.tokens, shares, where="post", label=use.name, color=colour)
            panel.axvline(use.budget, color=colour, linestyle="--", linewidth=1)
        full = sum(t >= use.budget for use in rows for t in use.tokens) / sum(len(u.tokens) for u in rows)
        panel.set(xlabel="tokens in a step (dashed: the budget)", ylabel="share of steps", xscale="log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_title(f"{100 * full:.3g} % of the steps have the whole budget")
        legend(panel, loc="lower right")
        entitle(figure, "Tokens in a step against the budget", of)
    return figure


def step_shares(records: Records) -> list[StepShares]:
    """Tokens a second by attention state where the rows of steps were kept, else by prefill and decode."""
    engines = shown_engines(records)
    slices = slices_of(engines)
    laid_out = dict(zip(map(id, records.engines), lay_out(records.engines), strict=True))
    found = []
    for engine in engines:
        table, laid = engine.table, laid_out[id(engine)]
        if laid:
            kinds = {step.state for step in laid}
            tokens = {
                kind: [
                    count if step.state == kind else 0 for step, count in zip(laid, table.tokens, strict=True)
                ]
                for kind in sorted(kinds)
            }
        else:
            decodes = [a - b for a, b in zip(table.tokens, table.prefill_tokens, strict=True)]
            tokens = {"prefill": list(table.prefill_tokens), "decode": decodes}
        rates = {kind: slices.total(table.start, table.end, counts) for kind, counts in tokens.items()}
        found.append(StepShares(member_namer(records.engines)(engine), slices.middles(), rates))
    return found


def composition(records: Records, of: str = "") -> Figure:
    """What the tokens of steps belong to over time: attention states, or prefill and decode."""
    rows = step_shares(records)
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.tokens))
    with styled():
        figure, axes = new_figure(len(rows), 1, height=1.2 + 1.8 * len(rows), sharex=True)
        for (panel,), row in zip(axes, rows, strict=True):
            shown = [kind for kind in kinds if kind in row.tokens]
            colours = [COLOURS[kinds.index(kind) % len(COLOURS)] for kind in shown]
            panel.stackplot(
                row.time, *(row.tokens[k] for k in shown), labels=shown, colors=colours, step="mid"
            )
            panel.set(ylabel="tokens/s", title=row.name)
        legend(axes[0][0], ncols=4, loc="upper left", bbox_to_anchor=(0.2, 1.35))
        axes[-1][0].set_xlabel("time [s]")
        entitle(figure, "Tokens over time by what they belong to", of)
    return figure
