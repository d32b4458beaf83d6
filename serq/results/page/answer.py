"""The answer of a run in a few sentences: what was asked of it, how much it served, what held it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

from serq.results.answers import Answers
from serq.results.engines import EngineFigures
from serq.results.expectations import Outcome
from serq.results.objectives import ObjectiveRow
from serq.results.tables import figure, member_namer
from serq.results.waiting_reasons import EngineWaiting, WaitingReason, engine_waiting
from serq.runtime.records import Records

_SIGNIFICANT: Final = 0.05
_WORDS: Final = {
    WaitingReason.SLOTS: "a slot: `max_num_seqs` requests ran",
    WaitingReason.BUDGET: "the token budget: steps had their `max_num_batched_tokens`",
    WaitingReason.KV: "KV blocks: those of the next request were not free",
    WaitingReason.PREEMPTION: "preemptions: running requests had to give their blocks back",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that the program asks of its run; ``good`` is None where the run says nothing about it."""

    good: bool | None
    asked: str
    measured: str


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure of the first line of the page: what, how much, in which unit."""

    name: str
    value: str
    unit: str


def verdicts(answers: Answers) -> list[Verdict]:
    """Objectives, then expectations."""
    return [*map(_of_objective, answers.objectives), *map(_of_expectation, answers.expectations)]


def _of_objective(row: ObjectiveRow) -> Verdict:
    measured = f"measured {figure(row.measured)}"
    if not isnan(row.within):
        measured += f", {100 * row.within:.2f} % of {row.requests} within"
    return Verdict(
        row.met, f"slo {row.objective}", measured if row.met is not None else "nothing was decided"
    )


def _of_expectation(outcome: Outcome) -> Verdict:
    return Verdict(outcome.holds, outcome.text, outcome.measured)


def headlines(records: Records, engines: Sequence[EngineFigures], answers: Answers) -> Iterator[Headline]:
    """Goodput, throughput and the latencies that people look at first."""
    span = records.end - records.warmup
    for row in answers.goodput[:1]:
        yield Headline("goodput", f"{row.per_second:.4g}", f"requests/s, {100 * row.share:.1f} % of all")
    requests = sum(engine.requests for engine in engines)
    if requests and span > 0:
        tokens = sum(engine.row.tokens for engine in engines)
        yield Headline(
            "throughput", f"{requests / span:.4g}", f"requests/s; {tokens / span:.4g} tokens/s computed"
        )
    name = member_namer([engine.row for engine in engines])
    for engine in engines:
        of = f" at {name(engine.row)}" if len(engines) > 1 else ""
        for metric, latency in (("TTFT", engine.ttft), ("TPOT", engine.tpot), ("E2E", engine.e2e)):
            if not isnan(latency.p99):
                yield Headline(f"{metric} p99{of}", f"{latency.p99:.4g}", f"s; median {latency.p50:.4g} s")


def bottleneck(records: Records) -> list[str]:
    """What held the run back, a sentence an engine; for a run without engines, its busiest stage.

    An engine may have a step in flight all the time, its utilization being 1, and still have room: each step
    could have held more.
    """
    if records.engines:
        name = member_namer(records.engines)
        span = records.end - records.warmup
        rows = zip(engine_waiting(records), records.engines, strict=True)
        return [_of_engine(name(row), waiting, span) for waiting, row in rows]
    if not records.stages:
        return []
    busiest = max(records.stages, key=lambda row: row.utilization)
    name = member_namer(records.stages)
    return [f"The busiest stage is `{name(busiest)}`, in use {100 * busiest.utilization:.1f} % of the time"]


def _of_engine(name: str, waiting: EngineWaiting, span: float) -> str:
    share = waiting.busy / span if span > 0 else 0.0
    said = f"`{name}` had a step in flight {100 * share:.1f} % of the time"
    reason = waiting.main_reason
    if reason is None or waiting.waiting < _SIGNIFICANT:
        return (
            f"{said}, and hardly anybody waited: those steps had slots, token budget and KV blocks left, "
            "so it has room for more requests"
        )
    of_that = 100 * waiting.waiting
    return f"{said}; in {of_that:.1f} % of that somebody waited, mostly for {_WORDS[reason]}"
