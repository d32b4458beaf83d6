"""The scheduler of a `step` stage, literally: a walk over the residents, then admission (R-B-020 to R-B-050).

It decides, and knows no clock: the engine asks it for a batch, prices the batch, and tells it when the batch
is launched and when it is done. Deciding twice in the same state decides the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Protocol

import msgspec

from serq.runtime.hold import Allocation
from serq.runtime.pool import Pool
from serq.runtime.session import Session
from serq.runtime.token_run import TokenBatch, TokenRun

_DONE = 1e-9
"""Remaining work up to this counts as finished (R-B-027)."""


class Memory(Protocol):
    """What the scheduler asks of the pools: admission and growth, with their consequences elsewhere."""

    preemptions: int
    """How many there were so far."""

    def try_head(self, pool: Pool) -> Session | None:
        """Admit the head of the queue of ``pool`` if it fits."""

    def grow_run(self, allocation: Allocation, units: float, resume: Callable[[], None]) -> bool:
        """Give a growing run ``units`` more, or let it wait, or preempt."""

    def take_for(self, allocation: Allocation, units: float) -> bool:
        """The same at once or not at all, and without writing it into ``allocation``."""

    def grow_together(self, pool: Pool, count: int, units: float) -> bool:
        """Give ``count`` runs ``units`` more each, if nobody has to give way for any of them."""


class StepRules(msgspec.Struct, frozen=True):
    """The declaration of a `step` stage as functions.

    ``cost_reads`` and ``order_reads`` name the totals that somebody reads: others are not computed.
    """

    budget: Callable[[TokenBatch], float] | None = None
    chunk: Callable[[TokenBatch], float] | None = None
    serve_key: Callable[[TokenRun, TokenBatch], tuple[int, ...]] | None = None
    serve_only: Callable[[TokenRun, TokenBatch], bool] | None = None
    exclusive_prefill: bool = False
    decodes_first: bool = False
    """Whether the serve key is that of `serve decode first` (R-B-036)."""
    order_reads: frozenset[str] = frozenset()
    cost_reads: frozenset[str] = frozenset()


@dataclass(slots=True)
class StepScheduler:
    """Residents of one engine and the decisions about them."""

    rules: StepRules
    memory: Memory
    resume: Callable[[Session], None]
    """Let an admitted session run at once, inside the forming (R-B-041)."""
    residents: list[TokenRun] = field(default_factory=list)
    """In the default order: admission number, then joining (R-B-021)."""
    queues: list[Pool] = field(default_factory=list)
    """Pools whose waiting lines this engine serves, in the order of declaration (R-B-043)."""
    _forming: TokenBatch | None = None
    _budget: float = 0.0
    _left: float = 0.0
    _shown_left: float = 0.0
    _chunk: float = inf
    _decodes_wait: bool = False
    _newcomers: list[TokenRun] = field(default_factory=list)

    # --- residents --------------------------------------------------------------------------------------

    def join(self, run: TokenRun) -> None:
        """``run`` becomes a resident; in the midst of a forming it is a newcomer."""
        residents, place = self.residents, (run.admission, run.order)
        if not residents or place > _by_admission(residents[-1]):
            residents.append(run)
        else:
            residents.insert(bisect_right(residents, place, key=_by_admission), run)
        if self._forming is not None:
            self._newcomers.append(run)

    def leave(self, run: TokenRun) -> None:
        """``run`` is gone before its end: it was preempted.

        Tokens it was given are cancelled (R-B-049); the budget that they took is spent.
        """
        self.residents.remove(run)
        run.schedulable = False
        batch = self._forming
        if batch is not None and run in batch.served:
            batch.served.remove(run)

    def has_work(self) -> bool:
        """Whether an iteration could be formed: somebody is resident, or waits to be (R-B-040)."""
        return bool(self.residents) or any(len(pool.queue) for pool in self.queues)

    # --- forming an iteration ---------------------------------------------------------------------------

    def schedule(self) -> TokenBatch | None:
        """Decide the next iteration in the present state; None if it would do nothing (R-B-020, R-B-031)."""
        rules = self.rules
        totals = self._totals(rules.order_reads) if rules.order_reads else _NO_TOTALS
        self._left = self._shown_left = self._budget = self.budget(totals)
        self._chunk = self._evaluate_chunk(totals)
        batch = self._forming = TokenBatch()
        preemptions = self.memory.preemptions
        try:
            self._serve_residents(totals, batch)
            if not (self._decodes_wait and batch.served):
                self._admit(batch, preemptions)
        finally:
            self._forming = None
        batch.preempted = self.memory.preemptions != preemptions
        if not batch.scheduled and not batch.preempted:
            return None
        self._total_up(batch)
        return batch

    def _serve_residents(self, totals: TokenBatch, batch: TokenBatch) -> None:
        """Give tokens to those who were there before (R-B-021 to R-B-024, R-B-037)."""
        exclusive = self.rules.exclusive_prefill
        self._decodes_wait = exclusive and not all(run.decoding for run in self.residents)
        if self._decodes_wait:
            self._serve_one_prefill(batch)
        else:
            self._serve(self._order(totals), batch)

    def budget(self, totals: TokenBatch) -> float:
        """The token budget of an iteration now; NaN counts as unlimited (R-B-025)."""
        function = self.rules.budget
        if function is None:
            return inf
        budget = function(totals)
        return inf if isnan(budget) else budget

    def budget_left(self) -> float:
        """What is left while an iteration is formed, else what the residents would leave now (R-B-042)."""
        if self._forming is not None:
            return self._shown_left
        reads = self.rules.order_reads
        totals = self._totals(reads) if reads else _NO_TOTALS
        return self._left_by_residents(self.budget(totals), self._evaluate_chunk(totals))

    def _left_by_residents(self, budget: float, chunk: float) -> float:
        """What of ``budget`` the residents would leave now."""
        left = budget
        for run in self.residents:
            share = min(self.remaining(run), 1.0 if run.decoding else chunk)
            left = left - share if share < left else 0.0
        return max(left, 0.0)

    def remaining(self, run: TokenRun) -> float:
        """Tokens that ``run``, a resident, has still to be computed."""
        return run.remaining

    def _evaluate_chunk(self, totals: TokenBatch) -> float:
        """The cap of one prefill; 0, negative or absent: none (R-B-026)."""
        chunk = 0.0 if self.rules.chunk is None else self.rules.chunk(totals)
        return chunk if chunk > 0.0 else inf

    def _totals(self, reads: frozenset[str]) -> TokenBatch:
        """Totals over all residents, as budget, chunk and serve keys read them (R-B-033, R-B-035)."""
        totals = TokenBatch()
        totals.residents = float(len(self.residents))
        if reads & {"decoders", "kv_decode", "kv_prefill"}:
            for run in self.residents:
                if run.decoding:
                    totals.decoders += 1.0
                    totals.kv_decode += run.memory_units()
                else:
                    totals.kv_prefill += run.memory_units()
        return totals

    def _order(self, totals: TokenBatch) -> list[TokenRun]:
        """Residents in the order in which they are served (R-B-021, R-B-035)."""
        rules = self.rules
        order = self.residents
        if rules.serve_only is not None:
            only = rules.serve_only
            order = [run for run in order if only(run, totals)]
        if rules.serve_key is not None:
            key = rules.serve_key
            return sorted(order, key=lambda run: key(run, totals))
        return order.copy()

    def _serve(self, order: list[TokenRun], batch: TokenBatch) -> None:
        """Give tokens to the runs of ``order`` while budget is left (R-B-023, R-B-024, R-B-044)."""
        served = batch.served
        chunk = self._chunk
        left = self._left
        for run in order:
            if not left > 0.0:
                break
            if not run.schedulable:
                continue
            tokens = run.remaining
            cap = 1.0 if run.decoding else chunk
            if tokens > cap:  # noqa: PLR1730 - `min` would be slower, here of all places
                tokens = cap
            if tokens > left:  # noqa: PLR1730
                tokens = left
            allocation = run.growing
            if allocation is not None and allocation.position + tokens > allocation.units:
                self._shown_left = left
                if not self._grow(run, allocation, tokens):
                    continue
            run.tokens = tokens
            served.append(run)
            left -= tokens
        self._left = self._shown_left = left

    def _grow(self, run: TokenRun, allocation: Allocation, tokens: float) -> bool:
        """Let the allocation reach position + tokens, in blocks; without room the run stalls (R-B-045)."""
        target = allocation.pool.round_up(allocation.position + tokens)

        def resume() -> None:
            run.schedulable = True

        if self.memory.grow_run(allocation, target - allocation.units, resume):
            return True
        run.schedulable = False
        return False

    def _serve_one_prefill(self, batch: TokenBatch) -> None:
        """`serve exclusive prefill`: the first prefill that can take tokens, alone (R-B-037).

        Where none can, for want of memory, decodes wait nevertheless; heads are admitted.
        """
        for run in self.residents.copy():
            if not run.decoding:
                self._serve([run], batch)
                if batch.served:
                    return

    # --- admission --------------------------------------------------------------------------------------

    def _admit(self, batch: TokenBatch, preemptions: int) -> None:
        """Admit heads while budget is left: always of the first queue that has one (R-B-040, R-B-043).

        The first head that does not fit ends it, and so does a preemption.
        """
        while self._left > 0.0 and self.memory.preemptions == preemptions:
            for pool in self.queues:
                if len(pool.queue):
                    break
            else:
                return
            if not self._admit_head(pool, batch):
                return

    def _admit_head(self, pool: Pool, batch: TokenBatch) -> bool:
        """Admit one session, let it run until it blocks, and serve it if it came here (R-B-041).

        Returns whether admission goes on. Under `exclusive prefill` its header sees the whole budget, and
        a newcomer that prefills takes over the iteration (R-B-038).
        """
        exclusive = self.rules.exclusive_prefill
        if exclusive:
            self._shown_left = self._budget
        session = self.memory.try_head(pool)
        self._shown_left = self._left
        if session is None:
            return False
        self._newcomers.clear()
        self.resume(session)
        for run in self._newcomers.copy():
            if run.decoding and self._decodes_wait:
                continue
            if not exclusive or run.decoding:
                self._serve([run], batch)
            elif self._take_over(run, batch):
                return False
        return True

    def _take_over(self, newcomer: TokenRun, batch: TokenBatch) -> bool:
        """Serve ``newcomer`` alone and from the whole budget; without tokens for it all stays (R-B-038).

        Decodes that it displaces keep what they have grown.
        """
        tentative, left = batch.served, self._left
        batch.served, self._left = [], self._budget
        self._serve([newcomer], batch)
        if batch.served:
            return True
        batch.served.extend(run for run in tentative if run.schedulable)
        self._left = self._shown_left = left
        return False

    # --- totals and the end -----------------------------------------------------------------------------

    def _total_up(self, batch: TokenBatch) -> None:
        """The totals that the cost reads, over what is served (R-B-033, R-B-034)."""
        batch.residents = float(len(self.residents))
        reads = self.rules.cost_reads
        memory = "kv_decode" in reads or "kv_prefill" in reads
        attention = "attention" in reads
        prefilled = units = 0.0
        tokens, decoders = float(batch.grouped), batch.grouped
        kv_decode = batch.kv_decode
        for run in batch.served:
            n = run.tokens
            tokens += n
            if memory:
                held = run.held
                units = held.units if held is not None and not run.others else run.memory_units()
            if run.decoding:
                decoders += 1
                kv_decode += units
                continue
            prefilled += n
            batch.kv_prefill += units
            if attention:
                position = 0.0 if run.growing is None else run.growing.position
                batch.attention += n * (position + n / 2.0)
        batch.tokens, batch.prefilled, batch.decoders = tokens, prefilled, float(decoders)
        batch.kv_decode = kv_decode

    def launch(self, batch: TokenBatch) -> None:
        """``batch`` is under way: positions advance now; a run preempted meanwhile keeps them (R-B-044)."""
        for run in batch.served:
            allocation = run.growing
            if allocation is not None:
                allocation.position += run.tokens
                if not run.advanced:
                    run.advanced = allocation.hold.tracked = True

    def update(self, batch: TokenBatch) -> list[TokenRun]:
        """Apply the tokens of ``batch``, which is done. Returns finished runs in service order (R-B-028).

        A run that was preempted since is gone.
        """
        finished = []
        for run in batch.served:
            if not run.schedulable:
                continue
            run.remaining -= run.tokens
            if run.remaining <= _DONE:
                finished.append(run)
        for run in finished:
            self.residents.remove(run)
            run.schedulable = False
        return finished


_NO_TOTALS = TokenBatch()
"""Totals that nobody reads."""


def _by_admission(run: TokenRun) -> tuple[float, int]:
    return (run.admission, run.order)
