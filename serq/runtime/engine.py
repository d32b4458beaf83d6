"""A `step` stage on the clock: intake of runs, start and end of iterations, what sessions read of it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan
from typing import TYPE_CHECKING

from serq.errors import RunError
from serq.runtime.faults import checked_cost
from serq.runtime.grouped_scheduler import GroupedScheduler
from serq.runtime.hold import Allocation, innermost
from serq.runtime.planned_run import PlannedRun, PlanningStage
from serq.runtime.stage import Waker
from serq.runtime.step_scheduler import StepScheduler
from serq.runtime.token_run import TokenBatch, TokenRun
from serq.runtime.vllm.fast.reasons import WalkReason

if TYPE_CHECKING:
    from serq.runtime.pool import Pool
    from serq.runtime.session import Session


def grown_allocation(session: Session, pool: Pool) -> Allocation:
    """What a `growing` run of ``session`` grows; raises RunError without a hold of ``pool`` (R-B-044)."""
    allocation = innermost(session, pool)
    if allocation is None:
        raise RunError(f"`growing {pool.name}`: the session holds no `{pool.name}`", code="no-hold")
    return allocation


class Engine(PlanningStage):
    """Runs iterations that its scheduler decides and its cost prices; one is under way at a time.

    Iterations that are sure to be decided like the one that was just launched are planned (see
    :mod:`serq.runtime.planned_run`); ``never_plans`` says why none ever is.
    """

    def __init__(
        self,
        name: str,
        member: int,
        host: Waker,
        scheduler: StepScheduler,
        cost: Callable[[TokenBatch], float],
        memory: Pool | None,
        never_plans: WalkReason | None = WalkReason.REFERENCE,
    ) -> None:
        super().__init__(name, member, host)
        self.scheduler = scheduler
        self.cost = cost
        self._memory = memory
        self._batch: TokenBatch | None = None
        self._of_session: dict[Session, TokenRun] = {}
        self._started = 0
        self._grouped = scheduler if isinstance(scheduler, GroupedScheduler) else None
        self._never_plans = never_plans if self._grouped is not None else WalkReason.REFERENCE
        self._walks_for = WalkReason.START if self._never_plans is None else self._never_plans
        self.planned_steps = 0
        self.walked_steps: dict[WalkReason, int] = {}
        self._changes_seen = 0
        self._pool_seen = (0.0, 0.0)

    def account(self, now: float) -> None:
        """Add the time since the last change to the integrals."""
        if now != self._since:
            elapsed = now - self._since
            if self.number:
                self._present += self.number * elapsed
                self._busy += elapsed
            self._since = now

    # --- intake -----------------------------------------------------------------------------------------

    def start(self, session: Session, tokens: float, decoding: bool, growing: Pool | None) -> None:
        """A run of ``tokens`` > 0 becomes a resident; the session goes on when the last one is computed."""
        self._cut_for(WalkReason.MESSAGE)
        now = self._clock.now
        self._started += 1
        run = TokenRun(session, tokens, decoding, now, self._started)
        run.growing = None if growing is None else grown_allocation(session, growing)
        if self._memory is not None:
            run.find_memory(self._memory)
        self.account(now)
        self.number += 1
        self._of_session[session] = run
        session.blocked_on = self
        self.scheduler.join(run)
        self._host.attend(self)

    def withdraw(self, session: Session) -> None:
        """The run of ``session`` is dropped: it was preempted (R-B-046)."""
        self._cut_for(WalkReason.MESSAGE)
        run = self._of_session.pop(session)
        self.account(self._clock.now)
        self.number -= 1
        if run.growing is not None and not run.schedulable:
            growers = run.growing.pool.growers
            for grower in growers:
                if grower.session is session:
                    growers.remove(grower)
                    break
        self.scheduler.leave(run)

    # --- iterations -------------------------------------------------------------------------------------

    def idle(self) -> bool:
        """Whether no iteration is under way and one could be formed."""
        return self._batch is None and self.scheduler.has_work()

    def begin(self) -> None:
        """Form an iteration and let it end after its cost; nothing if it would do nothing (R-B-030)."""
        batch = self.scheduler.schedule()
        if batch is None:
            return
        cost = checked_cost(self.cost(batch), batch.tokens, self)
        self.scheduler.launch(batch)
        self.iterations += 1
        self.walked_steps[self._walks_for] = self.walked_steps.get(self._walks_for, 0) + 1
        self._batch = batch
        end = self._clock.now + cost
        self.start_plan([end, *self._ends_after(batch, end)])

    def end_step(self) -> None:
        """The iteration under way is done."""
        batch = self._batch
        assert batch is not None
        self._batch = None
        self._host.attend(self)
        now = self._clock.now
        finished = self.scheduler.update(batch)
        if finished:
            self.account(now)
        for run in finished:
            self.number -= 1
            del self._of_session[run.session]
            self.complete(now, run.joined, 0.0)
            self._host.wake(run.session)

    # --- ahead ------------------------------------------------------------------------------------------

    def _ends_after(self, batch: TokenBatch, end: float) -> list[float]:
        """When the iterations after ``batch``, which ends at ``end``, will end, as far as is certain."""
        steps = self._steady(batch, end)
        if isinstance(steps, WalkReason):
            self._walks_for = steps
            return []
        scheduler = self._grouped
        assert scheduler is not None
        group, pool = scheduler.group, scheduler.group.pool
        looked = min(steps, self.horizon_of_plans)
        growing, in_memory = group.growth_ahead(looked)
        block = group.growth.block
        self._walks_for = WalkReason.FINISH if looked == steps else WalkReason.LOOKAHEAD
        taken, ends = 0, []
        totals = _decodes(len(group.members), group.units)
        clock = self._clock
        now = clock.now
        try:
            for grows, more in zip(growing, in_memory, strict=True):
                taken += grows
                if grows and pool is not None and not pool.has_room(taken, block):
                    self._walks_for = WalkReason.BLOCKS
                    break
                totals.kv_decode += more * block
                clock.now = end
                following = end + self.cost(totals)
                if not end < following < inf:
                    self._walks_for = WalkReason.INSTANT
                    break
                end = following
                ends.append(end)
        finally:
            clock.now = now
        if ends:
            self._changes_seen = self._host.holdings.changes
            self._note_pool()
            if pool is not None:
                pool.planner = self
        return ends

    def _steady(self, batch: TokenBatch, end: float) -> int | WalkReason:
        """How many iterations after ``batch`` are certain, or why none is."""
        if self._never_plans is not None:
            return self._never_plans
        assert self._grouped is not None
        if self._host.restless:
            return WalkReason.OTHERS
        if not self._clock.now < end < inf:
            return WalkReason.INSTANT
        pool = self._grouped.group.pool
        other = None if pool is None else pool.planner
        if other is not None and other is not self and other.plan is not None:
            return WalkReason.OTHERS
        return self._grouped.steady(batch, self._host.headers_change)

    def follow(self, plan: PlannedRun, count: int) -> None:
        """The iterations that ended by now were applied, and those after them launched (law L1)."""
        assert self._grouped is not None
        self._grouped.follow(plan.ends, plan.followed, count)
        self.iterations += count - plan.followed
        self.planned_steps += count - plan.followed
        self._note_pool()

    def reconsider(self) -> None:
        """An instant is over: cut if somebody could be admitted now, or if the pool has changed."""
        if self.plan is None or self._grouped is None:
            return
        holdings = self._host.holdings
        if holdings.changes != self._changes_seen:
            self._changes_seen = holdings.changes
            pool = self._grouped.waiting_pool()
            if pool is not None and (self._host.headers_change or holdings.would_admit(pool)):
                self._cut_for(WalkReason.WAITING)
                return
        if self._pool_seen != self._pool_now():
            self._cut_for(WalkReason.BLOCKS)

    def replace_plan(self, plan: PlannedRun, behind: int) -> None:
        """Something else happens when the step under way ends."""
        super().replace_plan(plan, behind)
        self._walks_for = WalkReason.TIE

    def cut(self) -> None:
        """Stand as the walk would stand now, which goes on from the next end."""
        if self.plan is not None:
            super().cut()
            self._walks_for = WalkReason.MESSAGE

    def _pool_now(self) -> tuple[float, float]:
        pool = None if self._grouped is None else self._grouped.group.pool
        return (0.0, 0.0) if pool is None else (pool.used, pool.cache.total)

    def _note_pool(self) -> None:
        self._pool_seen = self._pool_now()

    def _cut_for(self, reason: WalkReason) -> None:
        if self.plan is not None:
            self.cut()
            self._walks_for = reason

    # --- live reads -------------------------------------------------------------------------------------

    def busy(self) -> float:
        """`busy`: runs in the iteration under way; 0 while one is formed (R-B-018)."""
        batch = self._batch
        return 0.0 if batch is None else float(batch.grouped + sum(run.schedulable for run in batch.served))

    def remaining_work(self) -> float:
        """`work`: tokens still to be computed."""
        total = 0.0
        for run in self.scheduler.residents:
            total += self.scheduler.remaining(run)
        return total

    def budget_left(self) -> float:
        """`budget_left`, R-B-042."""
        return self.scheduler.budget_left()


def _decodes(count: int, units: float) -> TokenBatch:
    """The totals of an iteration of ``count`` decodes, which hold ``units`` of the memory."""
    totals = TokenBatch()
    totals.grouped = count
    totals.tokens = totals.decoders = totals.residents = float(count)
    totals.kv_decode = units
    return totals


def never_runs(budget: float) -> bool:
    """Whether a constant budget lets an engine do nothing for ever (R-B-025)."""
    return not isnan(budget) and not budget > 0.0
