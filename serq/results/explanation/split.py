"""A request's time, divided by what it waited for and what was computed meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain
from math import isnan
from typing import Final, NamedTuple

from serq.results.explanation.instants import Phases, Ticks
from serq.results.waiting_reasons import WaitingReason, step_reasons
from serq.runtime.records import Records
from serq.runtime.request_records import EngineRow


class Part(Enum):
    """What a stretch of a request's time was, in the words of a report."""

    TAKEN_IN = "waited until the engine looked"
    """From sending to the end of the step under way: an engine takes requests in between two steps."""
    SLOTS = "waited for a slot"
    """`max_num_seqs` requests ran (S-050)."""
    BUDGET = "waited for the token budget"
    """The steps had their `max_num_batched_tokens` (S-020)."""
    KV = "waited for KV blocks"
    """The blocks of the next request in its queue were not free (S-053 to S-056)."""
    PREEMPTION = "waited while others gave way"
    """A running request was preempted in the step, so nobody was admitted (S-044)."""
    TRANSFER = "waited for its KV to be transferred"
    PREFILL = "prefill"
    """From its first admission to its first token."""
    DECODE = "decode"
    """Between two tokens, in steps without prefill tokens."""
    INTERFERENCE = "decode, in steps shared with prefills"
    PREEMPTED = "preempted, waited to come back"
    RECOMPUTED = "computed again what it had lost"
    """From its admission after a preemption to its next token."""
    REST = "after its last token"
    """A request that was aborted, failed, or had not ended: from its last token on."""


_WAITING: Final = {
    WaitingReason.SLOTS: Part.SLOTS,
    WaitingReason.BUDGET: Part.BUDGET,
    WaitingReason.KV: Part.KV,
    WaitingReason.PREEMPTION: Part.PREEMPTION,
}
Split = Mapping[Part, int]
"""Ticks by part."""


class Stay(NamedTuple):
    """A stay of a request in a lane; ``left`` is the end of the run for who still waits."""

    request: int
    lane: str
    entered: float
    left: float
    admitted: bool
    preemptions: int


class Preemption(NamedTuple):
    """A preemption; NaN for what did not happen."""

    time: float
    step: int
    request: int
    lost_tokens: int
    needed_by: int
    resumed: float
    recovered: float


class Stretch(NamedTuple):
    """From when to when something held for a request, and what."""

    begin: float
    end: float
    part: Part


@dataclass(frozen=True)
class Splitter:
    """Divides the time of the requests of a run. Needs records with all their rows."""

    records: Records

    @cached_property
    def ticks(self) -> Ticks:
        """What all instants of the run are multiples of."""
        table, engines = self.records.requests, self.records.engines
        columns = (
            table.sent,
            table.queued,
            table.scheduled,
            table.first_token,
            table.last_token,
            table.finish,
        )
        of_requests = (time for column in columns for time in column if not isnan(time))
        of_engines = (chain(e.table.formed, e.table.end, e.queue.entered) for e in engines)
        return Ticks(chain((self.records.end,), of_requests, *of_engines))

    @cached_property
    def stays(self) -> Mapping[int, list[Stay]]:
        """The stays of every request, in their order."""
        end, found = self.records.end, defaultdict(list)
        for engine in self.records.engines:
            q = engine.queue
            columns = (q.request, q.lane, q.entered, q.left, q.outcome, q.preemptions)
            for request, lane, entered, left, outcome, preemptions in zip(*columns, strict=True):
                until = end if isnan(left) else left
                found[request].append(Stay(request, lane, entered, until, outcome == "admitted", preemptions))
        return found

    @cached_property
    def preemptions(self) -> Mapping[int, list[Preemption]]:
        """The preemptions of every request, in their order."""
        found = defaultdict(list)
        for engine in self.records.engines:
            v = engine.victims
            columns = (v.time, v.step, v.request, v.lost_tokens, v.needed_by, v.resumed, v.recovered)
            for row in zip(*columns, strict=True):
                found[row[2]].append(Preemption(*row))
        return found

    @cached_property
    def _waiting(self) -> list[Phases[Part]]:
        """For every engine: what somebody waits for who is not admitted, from the forming of each step on."""
        return [self._waiting_at(engine) for engine in self.records.engines]

    def _waiting_at(self, engine: EngineRow) -> Phases[Part]:
        parts = [_WAITING[reason] for reason in step_reasons(engine)]
        return Phases([0, *map(self.ticks.of, engine.table.formed)], [Part.KV, *parts])

    @cached_property
    def _decoding(self) -> list[Phases[Part]]:
        """For every engine: whether the step that ends next has prefill tokens."""
        found = []
        for engine in self.records.engines:
            table = engine.table
            parts = [Part.INTERFERENCE if tokens else Part.DECODE for tokens in table.prefill_tokens]
            begins = [0, *map(self.ticks.of, table.end)]
            found.append(Phases(begins, [*parts, Part.REST]))
        return found

    def end_of(self, place: int) -> float:
        """When a request was over for its client: with its last token, its end, or at the end of the run."""
        table = self.records.requests
        finish = table.finish[place]
        return self.records.end if isnan(finish) else max(finish, table.sent[place])

    def stretches(self, place: int) -> Iterator[Stretch]:
        """The time of the request at ``place`` from its sending on, without gaps."""
        table, end = self.records.requests, self.end_of(place)
        queued, first = table.queued[place], table.first_token[place]
        begin = end if isnan(queued) else min(queued, end)
        yield Stretch(table.sent[place], begin, Part.TAKEN_IN)
        for stay in self.stays.get(place, ()):
            if stay.entered > begin:
                yield from self._running(place, begin, stay.entered, first)
            left = min(stay.left, end)
            yield Stretch(max(begin, min(stay.entered, end)), left, _kind_of(stay))
            begin = left
        yield from self._running(place, begin, end, first)

    def _running(self, place: int, begin: float, end: float, first: float) -> Iterator[Stretch]:
        """While a request runs: its prefill, then decodes; after a preemption, what it computes again."""
        begin_again = [p for p in self.preemptions.get(place, ()) if p.resumed == begin]
        if begin_again:
            until = begin_again[-1].recovered
            until = end if isnan(until) else min(until, end)
            yield Stretch(begin, until, Part.RECOMPUTED)
            begin = until
        elif isnan(first) or begin < first:
            until = end if isnan(first) else min(first, end)
            yield Stretch(begin, until, Part.PREFILL)
            begin = until
        last = self.records.requests.last_token[place]
        until = begin if isnan(last) else max(begin, min(last, end))
        yield Stretch(begin, until, Part.DECODE)
        yield Stretch(until, end, Part.REST)

    def split(self, place: int, begin: float, end: float) -> Split:
        """The ticks between two instants of the request at ``place``, by part; they add up exactly."""
        of, engine = self.ticks.of, self.records.requests.engine[place]
        low, high = of(begin), of(end)
        found: dict[Part, int] = defaultdict(int)
        for stretch in self.stretches(place):
            first, last = max(low, of(stretch.begin)), min(high, of(stretch.end))
            if last <= first:
                continue
            phases = None
            if stretch.part is Part.KV:
                phases = self._waiting[engine]
            elif stretch.part is Part.DECODE:
                phases = self._decoding[engine]
            parts = {stretch.part: last - first} if phases is None else phases.split(first, last)
            for part, lasted in parts.items():
                found[part] += lasted
        return {part: found[part] for part in Part if found[part]}


def _kind_of(stay: Stay) -> Part:
    """What a stay is; KV stands for whatever the steps of that time say."""
    if stay.lane == "loading":
        return Part.TRANSFER
    return Part.PREEMPTED if stay.preemptions else Part.KV
