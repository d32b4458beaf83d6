"""Step ends that are computed ahead and are one event: a planned run, and how it is followed and cut.

A stage that forms iterations may know the next ones beforehand. Then it computes when each of them ends,
puts one event on the clock for the last one, and changes nothing else. When somebody wants to know how it
stands, it does what the walk would have done by now; when something comes that could change a decision, the
run is cut at the next step end, and the walk goes on there.

Inside a run the key of every step end is known (see the clock): the stage begins the next iteration at the
end of the one before, in phase 1 of that instant.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from serq.runtime.clock import EventKey, Ticket
from serq.runtime.stage import BatchingStage, Waker

SHORTEST: Final = 32
LONGEST: Final = 512


@dataclass(slots=True)
class PlannedRun:
    """A run of step ends that strictly increase; the first is that of the step under way.

    Each of them but the last is followed by a step that is planned. ``followed`` of them lie behind: their
    steps were processed, and those after them formed. ``first_key`` is the key of the first end.
    """

    ends: list[float]
    first_key: EventKey
    rank: int
    ticket: Ticket
    followed: int = 0

    def key(self, place: int) -> EventKey:
        """The key that the end at ``place`` has as an event."""
        return (self.ends[place - 1], 1, self.rank) if place else self.first_key


class PlanningStage(BatchingStage):
    """A stage that may plan. A subclass says what following a step end changes, and what ends a step."""

    def __init__(self, name: str, member: int, host: Waker) -> None:
        super().__init__(name, member, host)
        self.plan: PlannedRun | None = None
        self.horizon_of_plans = SHORTEST
        """How many steps the next plan looks ahead: long where plans come true, short where they are cut."""

    # --- what a subclass says ---------------------------------------------------------------------------

    @abstractmethod
    def follow(self, plan: PlannedRun, count: int) -> None:
        """The first ``count`` ends of ``plan`` lie behind, ``plan.followed`` of them already did."""

    @abstractmethod
    def end_step(self) -> None:
        """The step under way ends now."""

    # --- planning ---------------------------------------------------------------------------------------

    def start_plan(self, ends: list[float]) -> None:
        """Put a run on the clock whose first step is under way; asked while the stage begins."""
        clock = self._clock
        rank = self.rank + 1
        first_key = (clock.now, clock.phase, rank)
        if len(ends) == 1:
            clock.at_key(ends[0], self.end_step, first_key).calm = True
            return
        ticket = clock.at_key(ends[-1], self._end_plan, (ends[-2], 1, rank))
        ticket.calm = True
        self.plan = PlannedRun(ends, first_key, rank, ticket)

    def _end_plan(self) -> None:
        plan = self.plan
        assert plan is not None
        self._follow(plan, len(plan.ends) - 1)
        self.plan = None
        self.horizon_of_plans = min(LONGEST, 2 * self.horizon_of_plans)
        self.end_step()

    def catch_up(self) -> None:
        """Stand as the walk would stand now."""
        plan = self.plan
        if plan is None:
            return
        behind, ended = self._position(plan)
        if ended:
            self.cut()
        else:
            self._follow(plan, behind)

    def cut(self) -> None:
        """Stand as the walk would stand now, and let the walk go on from the next step end."""
        plan = self.plan
        if plan is None:
            return
        behind, ended = self._position(plan)
        self._follow(plan, behind)
        self.plan = None
        self.horizon_of_plans = max(SHORTEST, min(self.horizon_of_plans, 2 * behind))
        if ended:
            plan.ticket.discarded = True
            self._host.count_events(1)
            self.end_step()
        elif behind < len(plan.ends) - 1:
            plan.ticket.discarded = True
            self._clock.at_key(plan.ends[behind], self.end_step, plan.key(behind)).calm = True
        else:
            plan.ticket.action = self.end_step

    def follow_to(self, horizon: float) -> None:
        """The run ends at ``horizon``: everything up to and including it has happened."""
        plan = self.plan
        if plan is not None:
            ends = plan.ends
            behind = bisect_left(ends, horizon)
            behind += behind < len(ends) and ends[behind] == horizon
            self._follow(plan, min(behind, len(ends) - 1))

    def stand_before(self, time: float) -> None:
        """The next event comes at ``time``: stand as the walk would. An end at that instant is an event."""
        plan = self.plan
        if plan is None:
            return
        ends = plan.ends
        last = len(ends) - 1
        behind = min(bisect_left(ends, time, plan.followed), last)
        self._follow(plan, behind)
        if behind < last and ends[behind] == time:
            self.replace_plan(plan, behind)

    def reconsider(self) -> None:
        """An instant is over: cut what is planned if it would now be decided otherwise."""

    def replace_plan(self, plan: PlannedRun, behind: int) -> None:
        """The run is over; the step that is under way ends on the clock."""
        self.plan = None
        self.horizon_of_plans = max(SHORTEST, min(self.horizon_of_plans, 2 * behind))
        plan.ticket.discarded = True
        self._clock.at_key(plan.ends[behind], self.end_step, plan.key(behind))

    def _follow(self, plan: PlannedRun, behind: int) -> None:
        if behind > plan.followed:
            self.follow(plan, behind)
            self._host.count_events(behind - plan.followed)
            plan.followed = behind

    def _position(self, plan: PlannedRun) -> tuple[int, bool]:
        """(ends that lie behind, whether the next has come and its successor has not been formed yet)."""
        ends, clock = plan.ends, self._clock
        now = clock.now
        behind = bisect_left(ends, now)
        last = len(ends) - 1
        if behind >= last:
            return last, False
        if ends[behind] == now:
            if self._host.has_begun(self.rank):
                return behind + 1, False
            return behind, clock.phase > 0 or plan.key(behind) < clock.event_key
        return behind, False
