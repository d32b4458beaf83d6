"""A planned run is one event, stands where the walk would stand, and is cut at the next step end."""

from __future__ import annotations

import pytest

from serq.runtime.clock import Clock
from serq.runtime.planned_run import PlannedRun, PlanningStage
from serq.runtime.world import World


class Machine(PlanningStage):
    """Steps of length 1 from 0 on; what it did is written down."""

    def __init__(self, world: World, ends: list[float]) -> None:
        super().__init__("machine", 0, world)
        self.rank = 2
        self.ends = ends
        self.done: list[tuple[str, float]] = []
        self.waits = False
        world.reacting[self.rank] = self
        world.planners.append(self)
        world.attend(self)

    def idle(self) -> bool:
        return not self.waits

    def begin(self) -> None:
        if not self.done:
            self.waits = True
            self.start_plan(self.ends)

    def follow(self, plan: PlannedRun, count: int) -> None:
        self.done += [("followed", end) for end in plan.ends[plan.followed : count]]

    def end_step(self) -> None:
        self.done.append(("ended", self._clock.now))


def built(*ends: float) -> tuple[World, Machine]:
    world = World(Clock())
    machine = Machine(world, list(ends))
    world.react()
    return world, machine


def test_a_run_is_one_event_and_counts_as_many() -> None:
    world, machine = built(1.0, 2.0, 3.0)
    assert world.advance(10.0)
    assert world.clock.now == 3.0
    assert machine.done == [("followed", 1.0), ("followed", 2.0), ("ended", 3.0)]
    assert world.events == 3
    assert not world.advance(10.0)


def test_a_read_follows_to_now_and_keeps_the_run() -> None:
    world, machine = built(1.0, 2.0, 3.0)
    world.clock.at(1.5, machine.catch_up)
    world.advance(10.0)
    assert (machine.done, world.events) == ([("followed", 1.0)], 2)
    world.advance(10.0)
    assert machine.done[1:] == [("followed", 2.0), ("ended", 3.0)]


def test_a_cut_ends_the_next_step_on_the_clock() -> None:
    world, machine = built(1.0, 2.0, 3.0, 4.0)
    world.clock.at(1.5, machine.cut)
    for _ in range(2):
        world.advance(10.0)
    assert (machine.done, world.clock.now) == ([("followed", 1.0), ("ended", 2.0)], 2.0)
    assert not world.advance(10.0)
    assert world.events == 3


@pytest.mark.parametrize(
    ("asked_at", "done"),
    [
        (0.5, [("followed", 1.0), ("ended", 2.0)]),
        (1.5, [("followed", 1.0), ("ended", 2.0)]),
    ],
)
def test_at_the_instant_of_a_step_end_keys_decide_who_was_first(
    asked_at: float, done: list[tuple[str, float]]
) -> None:
    """An event for 2.0 that was scheduled before 1.0 comes before the step end, a later one behind it."""
    world, machine = built(1.0, 2.0, 3.0)
    seen: list[list[tuple[str, float]]] = []

    def cut() -> None:
        machine.cut()
        seen.append(list(machine.done))

    world.clock.at(asked_at, lambda: world.clock.at(2.0, cut) and None)
    while world.advance(10.0):
        pass
    before = [("followed", 1.0)] if asked_at < 1.0 else done
    assert seen == [before]
    assert machine.done == done
    assert world.events == 4


def test_what_is_left_at_the_horizon_has_happened_up_to_it() -> None:
    world, machine = built(1.0, 2.0, 3.0)
    assert not world.advance(2.0)
    machine.follow_to(2.0)
    assert machine.done == [("followed", 1.0), ("followed", 2.0)]
    assert world.events == 2
