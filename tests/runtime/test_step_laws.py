"""Laws of the `step` scheduler on random deployments: deciding twice, and looking, changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

import serq
from serq.errors import RunError
from serq.runtime.engine import Engine
from serq.runtime.records import Records
from serq.runtime.simulation import Simulation
from serq.runtime.stage import Stage
from serq.runtime.world import World
from tests.fuzz.generator import random_program

SEEDS = range(300, 360)


def run(source: str) -> Records | None:
    """What a program records; None where it is refused."""
    try:
        program = serq.compile(source=source).ir
    except serq.errors.CompileError:
        return None
    settings = program.run
    simulation = Simulation(
        program,
        seed=1,
        horizon=settings.horizon or 1.0,
        warmup=settings.warmup,
        arrivals=settings.arrivals,
        trace=None,
    )
    try:
        simulation.run()
    except RunError:
        return None
    return simulation.records()


def comparable(found: Records | None) -> Any:
    return (
        None if found is None else (repr(found.series), repr(found.stages), repr(found.pools), found.events)
    )


def sources() -> list[str]:
    programs = [random_program(seed) for seed in SEEDS]
    return [program.text for program in programs if program.trace is None and ": step" in program.text]


@pytest.mark.parametrize("source", sources())
def test_reading_live_state_changes_nothing(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = comparable(run(source))
    react = World.react

    def look(self: World) -> None:
        for stage in self.reacting.values():
            assert isinstance(stage, Stage)
            for read in (stage.queue_length, stage.busy, stage.remaining_work, stage.budget_left):
                read()
        react(self)

    monkeypatch.setattr(World, "react", look)
    assert comparable(run(source)) == before


@pytest.mark.parametrize("source", sources())
def test_deciding_again_decides_the_same(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody was admitted or preempted, the state after a decision is the state before it."""
    begin = Engine.begin
    compared = 0

    def twice(self: Engine) -> None:
        nonlocal compared
        scheduler = self.scheduler
        waiting = [len(pool.queue) for pool in scheduler.queues]
        first = scheduler.schedule()
        stays = first is not None and not first.preempted
        if stays and waiting == [len(pool.queue) for pool in scheduler.queues]:
            assert first is not None
            served = [(run, run.tokens) for run in first.served]
            second = scheduler.schedule()
            assert second is not None
            assert [(run, run.tokens) for run in second.served] == served
            compared += 1
            monkeypatch.setattr(scheduler_class, "schedule", lambda self: second)
            begin(self)
            monkeypatch.setattr(scheduler_class, "schedule", schedule)
        else:
            monkeypatch.setattr(scheduler_class, "schedule", lambda self: first)
            begin(self)
            monkeypatch.setattr(scheduler_class, "schedule", schedule)

    from serq.runtime.step_scheduler import StepScheduler as scheduler_class  # noqa: N813

    schedule = scheduler_class.schedule
    if "~" in source:
        pytest.skip("a second decision draws again")
    before = comparable(run(source))
    monkeypatch.setattr(Engine, "begin", twice)
    assert comparable(run(source)) == before
