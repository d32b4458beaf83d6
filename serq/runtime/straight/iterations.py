"""Iterations of one engine on the clock: what they cost, when they end, and which of them pass quietly."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from serq.runtime.faults import checked_cost
from serq.runtime.straight.entrance import Entrance
from serq.runtime.straight.resident import Members, Resident
from serq.runtime.token_run import TokenBatch

if TYPE_CHECKING:
    from serq.runtime.clock import Clock, EventKey
    from serq.runtime.engine import Engine

_ROUNDING = 2.0**-52
"""A sum is off by less than this part of it, for each addition."""

_AT_ONCE = 100_000
"""So many iterations pass before Ctrl-C is looked for."""


class Iterations:
    """While the engine is ``busy`` an iteration is under way, which ends at ``end``.

    An iteration that is surely followed by one that is decided alike ends quietly: nobody has to be asked.
    """

    def __init__(self, stage: Engine, entrance: Entrance, clock: Clock) -> None:
        self.stage = stage
        self.entrance = entrance
        self.members = Members(entrance.block)
        self.busy = False
        self.end = inf
        self.began = 0.0
        self.phase = 1
        """When the iteration under way was formed, and in which phase of that instant (see the clock)."""
        self.quiet = 0
        """How many iterations, from that under way on, end quietly."""
        self.prefilling: list[Resident] = []
        """In the order of admission; all of them were admitted after all members."""
        self.arrived: list[Resident] = []
        """Decodes that are no members yet."""
        self.served: list[Resident] = []
        """Who has tokens of the iteration that is formed or under way, members apart."""
        self.grouped = 0
        """How many members have."""
        self.clock = clock
        self.fixed_cost = False
        """Whether decodes alone cost what their number says."""
        self.in_memory = False
        """Whether the pool is the memory of the engine, of which the cost may read."""
        self.keeps = False
        """Whether another engine may break the run off, when more has passed here."""
        self._cost: Callable[[TokenBatch], float] = stage.cost
        self._costs: dict[int, float] = {}
        self._step_cost = 0.0
        self._kept: tuple[Any, ...] | None = None

    @property
    def order(self) -> tuple[float, int, int]:
        """Orders the end of the iteration under way among events of its instant."""
        return self.began, self.phase, self.stage.rank + 1

    def asked_from(self) -> float:
        """A time before which iterations surely end quietly: none has to be looked at until then."""
        quiet, cost, members = self.quiet, self._step_cost, self.members
        if not (quiet and self.fixed_cost):
            return self.end
        most = len(members.all) * (quiet // members.period + 1) * members.block
        reach = self.end + quiet * cost
        if self.entrance.memory.used + most > self.entrance.room or not reach + cost / 2.0 > reach:
            return self.end
        reach -= (quiet + 2) * reach * _ROUNDING
        return reach if reach > self.end else self.end

    def launch(self, now: float, *, alone: bool) -> None:
        """The iteration is priced and under way; ``alone``: members are all that there is."""
        grouped, cost = self.grouped, None
        memorable = alone and self.fixed_cost
        if memorable:
            cost = self._costs.get(grouped)
        if cost is None:
            batch = self._totals()
            cost = checked_cost(self._cost(batch), batch.tokens, self.stage)
            if memorable:
                self._costs[grouped] = cost
        for resident in self.served:
            resident.position += resident.given
            resident.tracked = True
        self.stage.iterations += 1
        self.busy = True
        self.began, self.phase = now, self.clock.phase
        self.end = now + cost
        self._step_cost = cost
        if grouped:
            self.members.launched += 1
        self.quiet = self.members.until_done() if alone else 0

    def _totals(self) -> TokenBatch:
        """What the cost reads of the iteration (R-B-033, R-B-034)."""
        members = self.members
        batch = TokenBatch()
        batch.grouped = self.grouped
        batch.residents = float(len(members.all) + len(self.prefilling) + len(self.arrived))
        decoders, prefilled = float(self.grouped), 0.0
        kv_decode, kv_prefill = members.units, 0.0
        for resident in self.served:
            tokens = resident.given
            if resident.decoding:
                decoders += 1.0
                kv_decode += resident.units
            else:
                prefilled += tokens
                kv_prefill += resident.units
                batch.attention += tokens * (resident.position + tokens / 2.0)
        batch.decoders, batch.prefilled, batch.tokens = decoders, prefilled, decoders + prefilled
        if self.in_memory:
            batch.kv_decode, batch.kv_prefill = kv_decode, kv_prefill
        return batch

    def finish(self, now: float) -> list[Resident]:
        """The iteration under way ends. Returns whose runs are done, in the order of service (R-B-028)."""
        self.busy = False
        finished = self.members.done() if self.grouped else []
        for resident in self.served:
            resident.remaining -= resident.given
            if not resident.remaining > 0.0:
                (self.arrived if resident.decoding else self.prefilling).remove(resident)
                finished.append(resident)
        if finished:
            stage = self.stage
            stage.account(now)
            stage.number -= len(finished)
            for resident in finished:
                stage.count_completion(now - resident.joined)
        return finished

    # --- quietly ----------------------------------------------------------------------------------------

    def pass_quietly(self, bound: float) -> int:
        """Let iterations end, and others like them begin, before ``bound``; returns how many did."""
        if self.keeps and self.quiet and self.end < bound:
            self._kept = self._keep()
        passed = 0
        while self.quiet and self.end < bound:
            passed += self._pass_some(bound)
            self.clock.next_time()  # Ctrl-C comes through where Python runs, which compiled loops do not
        return passed

    def _pass_some(self, bound: float) -> int:
        members, memory, figures = self.members, self.entrance.memory, self.entrance.memory.figures
        counts, later = members.growth.counts, members.growth.later
        period, block = members.period, members.block
        room, holders, used, since, units = (
            self.entrance.room, memory.holder_count, memory.used, figures.since, 0.0,
        )  # fmt: skip
        end, began, quiet, cost, fixed = self.end, self.began, self.quiet, self._step_cost, self.fixed_cost
        grown = first = members.grown
        last = first + _AT_ONCE
        caches = self.entrance.caches
        while quiet and end < bound and grown < last:
            growing = members.growth.at(grown) if later else counts.get(grown % period, 0)
            more = growing * block
            following = end + cost if fixed else self._next_end(end, units + more)
            if used + more > room or not following > end:
                quiet = 0
                break
            if later:
                members.growth.take(grown)
            if growing:
                units += more
                if caches:
                    self.entrance.take(more, end)
                    used, since = memory.used, end
                else:
                    elapsed = end - since
                    figures.used += used * elapsed
                    figures.holders += holders * elapsed
                    since = end
                    used += more
            grown += 1
            quiet -= 1
            began, end = end, following
        passed = grown - first
        if passed:
            memory.used, figures.since = used, since
            members.units += units
            members.grown = grown
            members.launched += passed
            self.stage.iterations += passed
            self.end, self.began, self.phase = end, began, 1
        self.quiet = quiet
        return passed

    def _next_end(self, now: float, grown: float) -> float:
        """When an iteration ends that begins ``now``, members having ``grown`` since the last was formed."""
        batch = TokenBatch()
        batch.grouped = self.grouped
        batch.tokens = batch.decoders = batch.residents = float(self.grouped)
        if self.in_memory:
            batch.kv_decode = self.members.units + grown
        clock = self.clock
        outer, clock.now = clock.now, now
        try:
            return now + self._cost(batch)
        finally:
            clock.now = outer

    # --- when a run breaks off --------------------------------------------------------------------------

    def stand_at(self, now: float, key: EventKey, *, begun: bool) -> int:
        """The run broke off at ``now``, at the event of ``key``: take back what has passed quietly since.

        ``begun``: this engine had its turn at ``now``. Returns by how many events more have happened.
        """
        if not self.busy:
            return 0
        bound = nextafter(now, inf) if begun else now
        passed = self.members.launched
        if self._kept is not None and self.began >= bound:
            self._restore(self._kept)
        self.pass_quietly(bound)
        events = self.members.launched - passed
        if self.quiet and self.end == now:
            events += self.order < key
        return events

    def _keep(self) -> tuple[Any, ...]:
        members, memory, figures = self.members, self.entrance.memory, self.entrance.memory.figures
        return (
            (memory.used, figures.used, figures.holders, figures.since, self.stage.iterations),
            (self.end, self.began, self.phase, self.quiet, members.units, members.grown, members.launched),
            members.growth.copy() if members.growth.later else None,
        )

    def _restore(self, kept: tuple[Any, ...]) -> None:
        members, memory, figures = self.members, self.entrance.memory, self.entrance.memory.figures
        shared, own, growth = kept
        memory.used, figures.used, figures.holders, figures.since, self.stage.iterations = shared
        self.end, self.began, self.phase, self.quiet, members.units, members.grown, members.launched = own
        if growth is not None:
            members.growth = growth
