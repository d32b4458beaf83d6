"""What requests waited for at an engine: slots, KV blocks, or the token budget of a step."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from serq.runtime.records import Records
from serq.runtime.request_records import EngineRow, StepTable


class WaitingReason(Enum):
    """Why a waiting request was not admitted to a step, in the order in which the scheduler would stop."""

    PREEMPTION = "preemption"
    """A running request had to give its blocks back, so nobody was admitted (S-044)."""
    SLOTS = "slots"
    """`max_num_seqs` requests ran (S-050)."""
    BUDGET = "budget"
    """The step had its `max_num_batched_tokens` (S-020)."""
    KV = "kv"
    """The blocks of the next request were not free (S-053 to S-056)."""


class EngineWaiting(NamedTuple):
    """How long requests waited at one engine, as shares of the time that it computed since warm-up.

    ``busy`` is that time in seconds, ``waiting`` the share of it in which somebody waited; ``reasons`` add up
    to ``waiting``.
    """

    name: str
    member: int
    busy: float
    waiting: float
    reasons: Mapping[WaitingReason, float]

    @property
    def main_reason(self) -> WaitingReason | None:
        """What was waited for most; None where nobody waited."""
        return max(self.reasons, key=lambda reason: self.reasons[reason]) if self.waiting else None


_BUDGETS: Final = ("max_num_scheduled_tokens", "max_num_batched_tokens")


def engine_waiting(records: Records) -> list[EngineWaiting]:
    """One entry an engine, in their order; each step counts by its duration."""
    return [_of_engine(engine, records.warmup) for engine in records.engines]


def step_reasons(engine: EngineRow) -> list[WaitingReason]:
    """Why somebody who waits is not admitted, for every step of an engine whether anybody does or not."""
    options = dict(engine.options)
    slots = options["max_num_seqs"]
    budget = next(options[name] for name in _BUDGETS if options.get(name) is not None)
    assert isinstance(slots, int) and isinstance(budget, int)
    return [_reason(engine.table, place, slots, budget) for place in range(len(engine.table))]


def _of_engine(engine: EngineRow, warmup: float) -> EngineWaiting:
    table, busy, reasons = engine.table, 0.0, step_reasons(engine)
    seconds = dict.fromkeys(WaitingReason, 0.0)
    for place in range(len(table)):
        if table.end[place] < warmup:
            continue
        duration = table.end[place] - table.start[place]
        busy += duration
        if table.waiting[place]:
            seconds[reasons[place]] += duration
    shares = {reason: value / busy if busy else 0.0 for reason, value in seconds.items()}
    return EngineWaiting(engine.name, engine.member, busy, sum(shares.values()), shares)


def _reason(table: StepTable, place: int, slots: int, budget: int) -> WaitingReason:
    if table.preempted[place]:
        return WaitingReason.PREEMPTION
    if table.running[place] >= slots:
        return WaitingReason.SLOTS
    return WaitingReason.BUDGET if table.tokens[place] >= budget else WaitingReason.KV
