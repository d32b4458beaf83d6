"""A `step` stage on the clock: intake of runs, start and end of iterations, what sessions read of it."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import TYPE_CHECKING

from serq.errors import RunError
from serq.runtime.faults import checked_cost
from serq.runtime.hold import Allocation, innermost
from serq.runtime.stage import BatchingStage, Waker
from serq.runtime.step_scheduler import StepScheduler
from serq.runtime.token_run import TokenBatch, TokenRun

if TYPE_CHECKING:
    from serq.runtime.pool import Pool
    from serq.runtime.session import Session


def grown_allocation(session: Session, pool: Pool) -> Allocation:
    """What a `growing` run of ``session`` grows; raises RunError without a hold of ``pool`` (R-B-044)."""
    allocation = innermost(session, pool)
    if allocation is None:
        raise RunError(f"`growing {pool.name}`: the session holds no `{pool.name}`", code="no-hold")
    return allocation


class Engine(BatchingStage):
    """Runs iterations that its scheduler decides and its cost prices; one is under way at a time."""

    def __init__(
        self,
        name: str,
        member: int,
        host: Waker,
        scheduler: StepScheduler,
        cost: Callable[[TokenBatch], float],
        memory: Pool | None,
    ) -> None:
        super().__init__(name, member, host)
        self.scheduler = scheduler
        self._cost = cost
        self._memory = memory
        self._batch: TokenBatch | None = None
        self._of_session: dict[Session, TokenRun] = {}
        self._started = 0

    # --- intake -----------------------------------------------------------------------------------------

    def start(self, session: Session, tokens: float, decoding: bool, growing: Pool | None) -> None:
        """A run of ``tokens`` > 0 becomes a resident; the session goes on when the last one is computed."""
        now = self._clock.now
        self._started += 1
        run = TokenRun(session, tokens, decoding, now, self._started)
        run.growing = None if growing is None else grown_allocation(session, growing)
        if self._memory is not None:
            held = [a for hold in reversed(session.holds) for a in hold.allocations
                    if a.pool is self._memory and not a.returned]  # fmt: skip
            if held:
                run.held, run.others = held[0], tuple(held[1:])
        self.account(now)
        self.number += 1
        self._of_session[session] = run
        session.blocked_on = self
        self.scheduler.join(run)
        self._host.attend(self)

    def withdraw(self, session: Session) -> None:
        """The run of ``session`` is dropped: it was preempted (R-B-046)."""
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
        cost = checked_cost(self._cost(batch), batch.tokens, self)
        self.scheduler.launch(batch)
        self.iterations += 1
        self._batch = batch
        self._clock.at(self._clock.now + cost, self._end, self.rank + 1)

    def _end(self) -> None:
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

    # --- live reads -------------------------------------------------------------------------------------

    def busy(self) -> float:
        """`busy`: runs in the iteration under way; 0 while one is formed (R-B-018)."""
        return 0.0 if self._batch is None else float(sum(run.schedulable for run in self._batch.served))

    def remaining_work(self) -> float:
        """`work`: tokens still to be computed."""
        total = 0.0
        for run in self.scheduler.residents:
            total += run.remaining
        return total

    def budget_left(self) -> float:
        """`budget_left`, R-B-042."""
        return self.scheduler.budget_left()


def never_runs(budget: float) -> bool:
    """Whether a constant budget lets an engine do nothing for ever (R-B-025)."""
    return not isnan(budget) and not budget > 0.0
