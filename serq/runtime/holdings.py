"""The rules of holds: joining, admission, growth, preemption, giving back (R-A-050 to R-A-093)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

from serq.errors import RunError
from serq.runtime.clock import Clock
from serq.runtime.faults import StatementError, checked_amount
from serq.runtime.hold import Allocation, Grower, Hold, HoldPlan, Lease, innermost
from serq.runtime.pool import SLACK, Pool
from serq.runtime.session import Session


class Host(Protocol):
    """What holds need of the world."""

    clock: Clock

    def wake(self, session: Session) -> None:
        """Let ``session`` go on when its turn comes."""

    def ask(self, pool: Pool, leads: bool = True) -> None:
        """Somebody waits at ``pool`` now, and may be tried first."""

    def pump(self) -> bool:
        """Serve growers and queues of all pools until nothing changes (R-A-061)."""

    def preempt(self, session: Session, depth: int) -> None:
        """Unwind ``session`` to its hold number ``depth``, which restarts; raises where it is running now."""


class Holdings:
    """All holds, growths and leases of a run."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._clock = host.clock
        self._admissions = 0
        self.preemptions = 0
        """How many there were so far, on all pools."""
        self.changes = 0
        """Moves with every hold that joins a queue and every allocation that is given back."""

    # --- joining and admission --------------------------------------------------------------------------

    def join(self, session: Session, plan: HoldPlan) -> bool:
        """Stand in the queue of the hold's first pool; False if the session is rejected (R-A-050, R-A-054).

        A hold that was preempted stands in front of everybody (R-A-076).
        """
        now = self._clock.now
        hold = Hold(plan, session, now)
        for pool, _, required in self._needs(hold):
            if required > pool.capacity:
                pool.figures.rejected += 1
                return False
        first = hold.pools[0]
        first.account(now)
        self.changes += 1
        if session.restarting:
            session.restarting = False
            first.queue.rejoin(hold)
        else:
            first.queue.join(hold)
        self._host.ask(first, first.queue.may_lead(hold))
        session.waiting_hold = hold
        session.blocked_on = first.queue
        return True

    @staticmethod
    def _needs(hold: Hold) -> list[tuple[Pool, float, float]]:
        """For each pool of ``hold``, in whole blocks: the units it takes, and the room it requires now."""
        amounts = iter(hold.plan.amounts(hold.session))
        needs = []
        for pool, units, reserve in zip(hold.pools, amounts, amounts, strict=True):
            if not (units >= 0.0 and reserve >= 0.0):
                what = f"units {units:.10g}" if not units >= 0.0 else f"reserve {reserve:.10g}"
                message = f"`hold {pool.name}`: {what}: an amount is a number, and not negative"
                raise StatementError(message, hold.session, hold.plan.statement, "negative-amount")
            taken = pool.round_up(units)
            needs.append((pool, taken, max(taken, pool.round_up(reserve)) if reserve else taken))
        return needs

    def try_head(self, pool: Pool) -> Session | None:
        """Admit the head of the queue of ``pool`` if it fits, atomically on all its pools (R-A-051, R-A-058).

        The queue must not be empty. Everything in the header is evaluated now, before anything is taken
        (R-A-053). The caller decides when the admitted session goes on.
        """
        hold = pool.queue.head()
        session, plan = hold.session, hold.plan
        needs = self._needs(hold)
        for needed, _, required in needs:
            if needed.used + required > needed.capacity + SLACK:
                return None
        now = self._clock.now
        self._leave_queue(hold, now)
        limit = None if plan.reuse is None else plan.reuse(session)
        largest = 0.0
        for needed, units, _ in needs:
            prefix = needed.admit(session, units, limit, now)
            largest = max(largest, prefix)
            hold.allocations.append(Allocation(hold, needed, units, prefix))
        session.a_cached = largest
        self._admissions += 1
        session.admission = self._admissions
        session.holds.append(hold)
        return session

    @staticmethod
    def _leave_queue(hold: Hold, now: float) -> None:
        first = hold.pools[0]
        first.account(now)
        first.queue.remove(hold)
        first.figures.wait += now - hold.joined
        first.figures.waits += 1
        hold.session.waiting_hold = None

    # --- giving back ------------------------------------------------------------------------------------

    def leave(self, session: Session) -> None:
        """End the scope of the innermost hold: units go back or into a lease, then everybody is retried.

        Admissions happen before the leaving session goes on (R-A-061, R-B-007).
        """
        hold = session.holds[-1]
        leased = hold.plan.leased
        for i, allocation in enumerate(hold.allocations):
            if allocation.returned:
                continue
            if i == leased:
                self._begin_lease(session, allocation)
            else:
                self._return(allocation)
        session.holds.pop()
        hold.allocations.clear()
        session.a_computed = 0.0
        if session.preempted_at:
            for pool in hold.pools:
                session.preempted_at.pop(pool, None)
        self._host.pump()

    def _return(self, allocation: Allocation, preempted: bool = False) -> None:
        """Give ``allocation`` back under the `cache` clause of its hold, which sees it gone (R-A-081).

        A hold that found all its tokens in the cache and is preempted before the next one leaves them, and
        in its other pools no more than it found: slots are not prefixes (R-A-079).
        """
        now = self._clock.now
        hold = allocation.hold
        self.changes += 1
        pool = allocation.pool
        pool.give_back(allocation, now)
        if hold.plan.keep is None and not pool.cache.remembers:
            return
        there = allocation.position if hold.tracked else allocation.units
        if preempted and hold.resumed_on not in (None, pool):
            there = min(there, allocation.position)
        wanted = 0.0 if hold.plan.keep is None else hold.plan.keep(hold.session)
        pool.keep(hold.session, there if wanted > there else wanted, now)

    def release(self, session: Session, pool: Pool) -> None:
        """`release`: the innermost hold's units, else the oldest lease; then retry everybody (R-A-091)."""
        allocation = innermost(session, pool)
        if allocation is not None:
            self._return(allocation)
            session.preempted_at.pop(pool, None)
        else:
            for lease in session.leases:
                if lease.allocation.pool is pool:
                    self._end_lease(session, lease)
                    break
        self._host.pump()

    def abandon(self, session: Session) -> None:
        """Give back everything of a session that ends: holds from the innermost, then leases (R-A-088)."""
        while session.holds:
            self._return_all(session.holds.pop())
        while session.leases:
            self._end_lease(session, session.leases[0])

    def _return_all(self, hold: Hold, preempted: bool = False) -> None:
        for allocation in hold.allocations:
            if not allocation.returned:
                self._return(allocation, preempted)
        hold.allocations.clear()

    # --- leases -----------------------------------------------------------------------------------------

    def _begin_lease(self, session: Session, allocation: Allocation) -> None:
        """Keep ``allocation`` beyond its hold; it ends by an event of its own, even at once (R-A-092)."""
        duration = allocation.hold.plan.duration
        seconds = inf if duration is None else duration(session)
        lease = Lease(allocation)
        session.leases.append(lease)
        now = self._clock.now
        end = now + seconds if seconds > 0.0 else now
        lease.ticket = self._clock.at(end, lambda: self._end_lease(session, lease))

    def _end_lease(self, session: Session, lease: Lease) -> None:
        if lease.ticket is not None:
            lease.ticket.cancel()
        session.leases.remove(lease)
        self._return(lease.allocation)

    # --- growth -----------------------------------------------------------------------------------------

    def grow(self, session: Session, pool: Pool, units: float) -> bool:
        """`grow`: add whole blocks to the innermost hold of ``pool`` (R-A-073). Returns whether it waits.

        Raises Preempted where the session that grows is itself the victim.
        """
        allocation = innermost(session, pool)
        if allocation is None:
            raise RunError(f"`grow {pool.name}`: the session holds no `{pool.name}`", code="no-hold")
        more = pool.round_up(checked_amount(units, f"`grow {pool.name}`"))
        if self._extend(allocation, more):
            return False
        self._wait(Grower(session, allocation, more, lambda: self._host.wake(session)))
        session.blocked_on = _Growing(pool)
        return True

    def grow_run(self, allocation: Allocation, units: float, resume: Callable[[], None]) -> bool:
        """Give a growing run ``units`` more (R-B-044). False: it waits or was preempted (R-B-045, -046)."""
        if self._extend(allocation, units):
            return True
        if not allocation.returned:
            self._wait(Grower(allocation.hold.session, allocation, units, resume))
        return False

    def grow_together(self, pool: Pool, count: int, units: float) -> bool:
        """Give ``count`` growing runs ``units`` more of ``pool`` each, their allocations apart.

        False, and nothing is changed, where one would not fit.
        """
        now = self._clock.now
        if pool.has_room(count, units):
            pool.take_together(count, units, now)
            return True
        if not pool.fits_together(count, units):
            return False
        for _ in range(count):  # cached prefixes give way, for one after the other
            pool.take(units, now)
        return True

    def would_admit(self, pool: Pool) -> bool:
        """Whether :meth:`try_head` would admit somebody now, or raise; the queue must not be empty."""
        try:
            needs = self._needs(pool.queue.head())
        except RunError:
            return True
        return not any(needed.used + required > needed.capacity + SLACK for needed, _, required in needs)

    def _wait(self, grower: Grower) -> None:
        pool = grower.allocation.pool
        pool.growers.append(grower)
        self._host.ask(pool)

    def _extend(self, allocation: Allocation, units: float) -> bool:
        """Add ``units``, preempting under `preempt lifo` until they fit (R-A-074, R-A-075).

        The session that grows may be the victim itself: then False, and its allocation is returned.
        """
        if not self.take_for(allocation, units):
            return False
        allocation.units += units
        return True

    def take_for(self, allocation: Allocation, units: float) -> bool:
        """Take ``units`` of its pool for ``allocation``, whose units are counted elsewhere."""
        pool = allocation.pool
        while not pool.fits(units):
            victim = pool.last_admitted() if pool.lifo else None
            if victim is None:
                return False
            self._preempt(victim, pool)
            if allocation.returned:
                return False
        pool.take(units, self._clock.now)
        return True

    def try_grower(self, pool: Pool) -> bool:
        """Serve the first grower of ``pool`` if its growth fits now; no preemption for it (R-A-074)."""
        grower = pool.growers[0]
        if not pool.fits(grower.units):
            return False
        pool.growers.popleft()
        pool.take(grower.units, self._clock.now)
        grower.allocation.units += grower.units
        grower.granted()
        return True

    # --- preemption -------------------------------------------------------------------------------------

    def _preempt(self, victim: Session, pool: Pool) -> None:
        """Take the hold of ``pool`` and all holds inside it from ``victim``, which restarts it (R-A-076).

        Raises Preempted where the victim is running now: its own `grow` failed, and its code unwinds.
        """
        if victim.waiting_hold is not None:
            victim.waiting_hold.pools[0].account(self._clock.now)
        if victim.blocked_on is not None:
            victim.blocked_on.withdraw(victim)
            victim.blocked_on = None
        allocation = innermost(victim, pool)
        assert allocation is not None
        depth = allocation.hold.plan.depth
        position = allocation.position
        self.preemptions += 1
        self._count_preemption(victim, allocation)
        while len(victim.holds) > depth:
            self._return_all(victim.holds.pop(), preempted=True)
        victim.ready = False
        victim.a_computed = position
        victim.restarting = True
        self._host.preempt(victim, depth)

    @staticmethod
    def _count_preemption(victim: Session, allocation: Allocation) -> None:
        """`preemptions`, and `stuck` for a session that got no further than the last time (R-A-079).

        A session counts as stuck once, where it first was (R-B-050).
        """
        pool = allocation.pool
        figures = pool.figures
        figures.preemptions += 1
        previous = victim.preempted_at.get(pool)
        victim.preempted_at[pool] = allocation.position
        if previous is not None and allocation.position <= previous and not victim.stuck:
            victim.stuck = True
            figures.stuck += 1

    # --- other statements -------------------------------------------------------------------------------

    @staticmethod
    def load(session: Session, pool: Pool, units: float) -> None:
        """`load`: advance the position of the innermost hold on ``pool`` (R-A-093)."""
        allocation = innermost(session, pool)
        if allocation is None:
            raise RunError(f"`load {pool.name}`: the session holds no `{pool.name}`", code="no-hold")
        position = allocation.position + checked_amount(units, f"`load {pool.name}`")
        if position > allocation.units:
            raise RunError(
                f"`load {pool.name}`: position {position:.10g} would exceed the allocation of "
                f"{allocation.units:.10g}",
                code="load-beyond-allocation",
            )
        allocation.position = position
        allocation.hold.tracked = True

    def drop(self, session: Session, pool: Pool) -> None:
        """`drop`: remove the session's own live entry (R-A-087)."""
        pool.drop(session, self._clock.now)


class _Growing:
    """What a session that waits in a `grow` is blocked on."""

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def withdraw(self, session: Session) -> None:
        """Forget the growth of ``session``."""
        growers = self._pool.growers
        for grower in growers:
            if grower.session is session:
                growers.remove(grower)
                return
