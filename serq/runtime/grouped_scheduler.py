"""The scheduler of a `step` stage that counts its regular decodes together, and decides as the walk decides.

Residents that decode whole numbers of tokens are members of a group: while the budget covers them and their
growth has room, an iteration serves them all, in O(1). The others, and those who are admitted, are walked
over as always. Where the walk would do anything else with a member, the group is dissolved first.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from serq.runtime.decode_group import DecodeGroup, by_admission
from serq.runtime.pool import Pool
from serq.runtime.step_scheduler import Memory, StepRules, StepScheduler
from serq.runtime.token_run import TokenBatch, TokenRun
from serq.runtime.vllm.fast.reasons import WalkReason

if TYPE_CHECKING:
    from serq.runtime.session import Session

_LARGEST_BUDGET = 2.0**52
"""Up to here one token less is one token less, also in floating point."""
_MEMORY_TOTALS = frozenset({"kv_decode", "kv_prefill"})
_RESIDENT_TOTALS = frozenset({"decoders", "kv_decode", "kv_prefill"})
"""Totals over residents for which every one of them is looked at."""


class GroupedScheduler(StepScheduler):
    """Decides what :class:`StepScheduler` decides."""

    def __init__(self, rules: StepRules, memory: Memory, resume: Callable[[Session], None]) -> None:
        super().__init__(rules, memory, resume)
        self.group = DecodeGroup()
        self._others: list[TokenRun] = []
        """Residents that are no members, in the order of admission."""
        self._launched: TokenBatch | None = None
        self._alone: WalkReason | None = None
        """Why members were not served as one; None: they were."""
        self._decodes_first = rules.decodes_first
        self._reads_memory = bool(_MEMORY_TOTALS & rules.cost_reads)
        self._groups = (
            rules.serve_only is None
            and not rules.exclusive_prefill
            and (rules.serve_key is None or rules.decodes_first)
        )

    # --- residents --------------------------------------------------------------------------------------

    def join(self, run: TokenRun) -> None:
        """``run`` becomes a resident; it is walked over until the next iteration is formed."""
        super().join(run)
        insort(self._others, run, key=by_admission)

    def leave(self, run: TokenRun) -> None:
        """``run`` is gone before its end: it was preempted.

        If it was served as a member its token is cancelled, and the budget that it took is spent (R-B-049).
        """
        if run in self.group.members:
            self.group.leave(run)
            batch = self._launched if self._forming is None else self._forming
            if batch is not None and batch.grouped:
                batch.grouped -= 1
        else:
            self._others.remove(run)
        super().leave(run)

    def remaining(self, run: TokenRun) -> float:
        """Tokens that ``run``, a resident, has still to be computed."""
        return self.group.remaining(run) if run in self.group.members else run.remaining

    def _dissolve(self) -> None:
        """From here on members are walked over like everybody; in an iteration, too, that is under way."""
        runs = self.group.dissolve()
        self.group = DecodeGroup()
        batch = self._launched if self._forming is None else self._forming
        if batch is not None and batch.grouped:
            for run in runs:
                run.tokens = 1.0
            batch.served[:0] = runs
            batch.grouped = 0
        self._others = self.residents.copy()

    # --- forming an iteration ---------------------------------------------------------------------------

    def _serve_residents(self, totals: TokenBatch, batch: TokenBatch) -> None:
        """Members are served as one, if they all can be and come first; then the others."""
        self._alone = WalkReason.SCHEDULER
        if self._groups:
            self._absorb()
            self._alone = self._serve_group(batch)
        if self._alone is None:
            self._serve(self._others.copy(), batch)
            return
        if self.group.members:
            self._dissolve()
        super()._serve_residents(totals, batch)

    def _absorb(self) -> None:
        """Others that are regular now become members."""
        group = self.group
        if group.grown != group.formed:  # an iteration was formed, and is formed again instead of launched
            return
        staying = []
        for run in self._others:
            if run.decoding and group.admits(run):
                group.join(run)
            else:
                staying.append(run)
        self._others = staying

    def _serve_group(self, batch: TokenBatch) -> WalkReason | None:
        """Give every member a token, if the walk would do just that before it comes to the others.

        Else nothing has happened, and the reason is returned.
        """
        group, others = self.group, self._others
        count = len(group.members)
        if any(run.decoding for run in others):
            return WalkReason.FRACTIONS if all(run.schedulable for run in others) else WalkReason.BLOCKS
        if not count or not self._precede(others):
            return WalkReason.PREFILL
        if not (count <= self._left < _LARGEST_BUDGET or self._left == inf):
            return WalkReason.BUDGET
        if group.grown == group.formed:
            pool = group.pool
            growing = 0 if pool is None else group.growth.at(group.grown)
            if pool is not None and growing:
                block = float(group.growth.block)
                if not self.memory.grow_together(pool, growing, block):
                    if not (pool.lifo and self in pool.memory_of):
                        return WalkReason.BLOCKS
                    self._grow_in_turn(block)
                    count = len(group.members)
            group.grow()
        batch.grouped = count
        self._left = self._shown_left = self._left - count
        return None

    def _grow_in_turn(self, block: float) -> None:
        """Members grow one after the other, and those admitted last give way (R-B-045, R-B-046).

        Who gives way stands behind the one that grows, or is it: neither has been served.
        """
        group, memory, left = self.group, self.memory, self._left
        for run in self.residents.copy():
            if run not in group.members:
                continue
            if group.grows_next(run):
                self._shown_left = left
                assert run.growing is not None
                if not memory.take_for(run.growing, block):
                    continue
            left -= 1.0

    def _total_up(self, batch: TokenBatch) -> None:
        """The totals that the cost reads, those of the members among them."""
        if batch.grouped and self._reads_memory:
            batch.kv_decode = self.group.units
        super()._total_up(batch)

    def _precede(self, others: list[TokenRun]) -> bool:
        """Whether members are served before any of ``others``, who do not decode."""
        return not others or self._decodes_first or self.residents[-len(others)] is others[0]

    def _totals(self, reads: frozenset[str]) -> TokenBatch:
        """Totals over all residents, as budget and chunk read them (R-B-033)."""
        others = self._others
        if not reads & _RESIDENT_TOTALS:
            return super()._totals(reads)
        if not self.group.members or not all(run.memory_units().is_integer() for run in others):
            self._dissolve()
            return super()._totals(reads)
        totals = TokenBatch()
        totals.residents = float(len(self.residents))
        totals.decoders = float(len(self.group.members) + sum(run.decoding for run in others))
        totals.kv_decode = self.group.units
        for run in others:
            if run.decoding:
                totals.kv_decode += run.memory_units()
            else:
                totals.kv_prefill += run.memory_units()
        return totals

    def _left_by_residents(self, budget: float, chunk: float) -> float:
        """What of ``budget`` the residents would leave now; members take a token each.

        Whole numbers are taken from it exactly, in any order.
        """
        shares = float(len(self.group.members))
        if shares and (budget < _LARGEST_BUDGET or budget == inf):
            for run in self._others:
                share = min(run.remaining, 1.0 if run.decoding else chunk)
                if not share.is_integer():
                    break
                shares += share
            else:
                return max(budget - shares, 0.0)
        return super()._left_by_residents(budget, chunk)

    # --- ahead ------------------------------------------------------------------------------------------

    def steady(self, batch: TokenBatch, headers_change: bool) -> int | WalkReason:
        """How many iterations after ``batch``, which was launched, decide the same; or why none is sure to.

        They do as long as nobody joins or leaves, and nothing that a waiting head needs is given back.
        """
        if self._alone is not None:
            return self._alone
        if self._others or not batch.grouped:
            return WalkReason.PREFILL
        if batch.preempted:
            return WalkReason.BLOCKS
        if headers_change and self.waiting_pool() is not None:
            return WalkReason.WAITING
        return self.group.until_finish - 1 or WalkReason.FINISH

    def waiting_pool(self) -> Pool | None:
        """The pool whose head an iteration like the last one would try to admit."""
        if not self._left > 0.0:
            return None
        return next((pool for pool in self.queues if len(pool.queue)), None)

    def follow(self, ends: list[float], start: int, stop: int) -> None:
        """Iterations ended at ``ends[start:stop]``, and at each of these instants the next was launched."""
        group = self.group
        growing = group.advance(stop - start)
        if group.pool is not None:
            group.pool.take_over(growing, float(group.growth.block), ends[start:stop])

    # --- the end ----------------------------------------------------------------------------------------

    def launch(self, batch: TokenBatch) -> None:
        """``batch`` is under way."""
        super().launch(batch)
        self._launched = batch
        if batch.grouped:
            self.group.launch()

    def update(self, batch: TokenBatch) -> list[TokenRun]:
        """Apply the tokens of ``batch``, which is done. Returns finished runs in service order (R-B-028)."""
        self._launched = None
        finished = self.group.finish() if batch.grouped else []
        for run in finished:
            self.residents.remove(run)
            run.schedulable = False
        if not self.group.members:
            self.group = DecodeGroup()
        if not batch.served:
            return finished
        walked = super().update(batch)
        for run in walked:
            self._others.remove(run)
        return finished + walked
