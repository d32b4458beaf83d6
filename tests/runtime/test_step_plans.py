"""Iterations of `step` stages that are planned: how many events they save, what is seen, why others walk."""

from __future__ import annotations

import pytest

import serq
from serq.errors import RunError
from serq.ir import nodes
from serq.runtime.engine import Engine
from serq.runtime.planned_run import SHORTEST
from serq.runtime.records import Records
from serq.runtime.simulation import Simulation, simulate
from serq.runtime.vllm.fast.reasons import WalkReason
from tests.conformance.recordings import Recording, deviations, recordings
from tests.fuzz.step_programs import random_step_program

KV = "pool kv { cap 1000; block 16; }"
STAGE = "stage gpu : step { budget 64; memory kv; cost 0.5; }"


def text(
    session: str = "hold kv (16) { run gpu decode (40) growing kv; }",
    *,
    pools: str = KV,
    stage: str = STAGE,
    arrive: str = "batch(2)",
    more: str = "",
) -> str:
    return (
        f"{pools} {stage} stage d : delay; {more} workload {{ arrive {arrive}; }} "
        f"session {{ {session} observe done = now; }} run {{ horizon 100; }}"
    )


def recorded(records: Records) -> dict[str, str]:
    names = (
        "end",
        "events",
        "arrivals",
        "ended",
        "mean_live",
        "series",
        "stages",
        "pools",
        "gauges",
        "stopped",
    )
    return {name: repr(getattr(records, name)) for name in (*names, "warnings")}


def both(source: str) -> list[Engine]:
    """Run ``source`` both ways, compare everything, and return the engines that plan."""
    program = serq.compile(source=source)
    settings = program.ir.run
    assert settings.horizon is not None
    run = Simulation(
        program.ir,
        seed=settings.seed,
        horizon=settings.horizon,
        warmup=settings.warmup,
        arrivals=settings.arrivals,
        trace=None,
        engine="auto",
    )
    run.run()
    assert recorded(run.records()) == recorded(simulate(program.ir, engine="reference"))
    return [stage for stage in run.world.planners if isinstance(stage, Engine)]


def test_a_run_of_decodes_is_a_few_events() -> None:
    """40 iterations of half a time each: one walked, the shortest plan, one walked, a plan to the end."""
    (engine,) = both(text())
    assert engine.iterations == 40 and SHORTEST < 38 <= 1 + SHORTEST + 1 + 2 * SHORTEST
    assert engine.planned_steps == 38
    assert engine.walked_steps == {WalkReason.START: 1, WalkReason.LOOKAHEAD: 1}


def test_what_finishes_together_finishes_in_service_order() -> None:
    """Three decodes end at 4; by admission they go on, and each takes the desk for one (R-B-028)."""
    session = "run d (2 - serial); hold kv (16) { run gpu decode (4 + 2 * serial) growing kv; } run desk (1);"
    source = text(session, more="stage desk : fifo;", arrive="batch(3)")
    both(source)
    series = simulate(serq.compile(source=source).ir, engine="auto").series["done"]
    assert sorted(series.sessions) == [0, 1, 2]


def test_a_read_in_a_plan_sees_what_the_walk_would_show() -> None:
    """At 5.25 ten iterations are done and the eleventh is under way: 30 tokens left, 11 positions held."""
    session = """
    branch (serial == 0) { hold kv (0) { run gpu decode (40) growing kv; } }
    else { run d (5.25); observe work = work(gpu); observe used = used(kv); observe busy = busy(gpu); }
    """
    source = text(session, pools="pool kv { cap 1000; }")
    (engine,) = both(source)
    assert engine.planned_steps > 30
    series = simulate(serq.compile(source=source).ir, engine="auto").series
    assert [series[name].values for name in ("work", "used", "busy")] == [[30.0], [11.0], [1.0]]


def test_a_read_at_the_end_of_an_iteration_goes_by_the_order_of_scheduling() -> None:
    """At 5.0 iteration ten ends, scheduled at 4.5. Who asked at 0 comes before it, who did at 4.75 after."""
    session = """
    branch (serial == 0) { run gpu decode (40); }
    else {
      branch (serial == 1) { run d (5); observe early = work(gpu); }
      else { run d (4.75); run d (0.25); observe late = work(gpu); }
    }
    """
    source = text(session, arrive="batch(3)")
    both(source)
    series = simulate(serq.compile(source=source).ir, engine="auto").series
    assert (series["early"].values, series["late"].values) == ([31.0], [30.0])


def test_arrivals_that_cannot_be_admitted_cut_nothing() -> None:
    """One slot, and somebody new in line every 0.3: the plan stands. Without it each is a message."""
    slots = "pool slots { cap 1; admit via gpu; } "
    blocked = text("hold slots (1) { run gpu decode (150); }", pools=slots + KV, arrive="renewal(0.3)")
    (engine,) = both(blocked)
    assert engine.walked_steps.get(WalkReason.MESSAGE, 0) == 0
    assert engine.planned_steps > 150 - 12
    (engine,) = both(text("run gpu decode (150);", arrive="renewal(7.13)"))
    assert 10 <= engine.walked_steps[WalkReason.MESSAGE] <= 13


def test_room_that_is_made_lets_the_head_in() -> None:
    """Who waits needs 10 of 12 units; 8 come back at 5.25: the iteration formed at 5.5 admits it."""
    pools = "pool kv { cap 12; admit via gpu; }"
    session = """
    branch (serial == 0) { run gpu decode (60); }
    else {
      branch (serial == 1) { hold kv (8) { run d (5.25); } }
      else { hold kv (10) { observe begun = now; } }
    }
    """
    stage = "stage gpu : step { cost 0.5; }"
    both(text(session, pools=pools, stage=stage, arrive="batch(3)"))
    source = text(session, pools=pools, stage=stage, arrive="batch(3)", more="gauge units = used(kv);")
    (engine,) = both(source)
    assert simulate(serq.compile(source=source).ir, engine="auto").series["begun"].values == [5.5]
    assert engine.walked_steps[WalkReason.WAITING] == 1


def test_a_gauge_sees_every_iteration() -> None:
    """From 1 to 40 units, one more every half: the time average over [0, 100] is that of a staircase."""
    source = text(
        "hold kv (0) { run gpu decode (40) growing kv; }",
        pools="pool kv { cap 1000; }",
        arrive="batch(1)",
        more="gauge units = used(kv);",
    )
    (engine,) = both(source)
    assert engine.planned_steps > 30
    (gauge,) = simulate(serq.compile(source=source).ir, engine="auto").gauges
    assert gauge.mean == pytest.approx(sum(range(1, 41)) * 0.5 / 100) and gauge.largest == 40


WALKS = {
    WalkReason.COST: text(stage="stage gpu : step { cost 0.2 + 0.1 * queue(d); }"),
    WalkReason.LIMITS: text(stage="stage gpu : step { budget 64 - now / 10; cost 0.5; }"),
    WalkReason.SCHEDULER: text(stage="stage gpu : step { serve by (remaining); cost 0.5; }"),
    WalkReason.FRACTIONS: text("run gpu decode (9.5);"),
    WalkReason.BUDGET: text("run gpu decode (9);", stage="stage gpu : step { budget 1; cost 0.5; }"),
    WalkReason.PREFILL: text("run gpu prefill (100); run gpu decode (5);"),
    WalkReason.FINISH: text("run gpu decode (9 + serial);"),
    WalkReason.BLOCKS: text(pools="pool kv { cap 64; block 16; preempt lifo; }", arrive="batch(3)"),
    WalkReason.WAITING: text(
        "hold slots (1 + now * 0) { run gpu decode (20); }",
        pools="pool slots { cap 1; admit via gpu; } " + KV,
    ),
    WalkReason.OTHERS: text(
        "branch (serial == 0) { run gpu decode (40); } else { hold slots (2 + 0 * now) { run d (30); } }",
        pools="pool slots { cap 3; } " + KV,
        arrive="batch(3)",
    ),
    WalkReason.INSTANT: text("run gpu decode (9);", stage="stage gpu : step { cost (now < 2) ? 0.5 : inf; }"),
    WalkReason.TIE: text(
        "run gpu decode (20); run gpu decode (20);", more="gauge busy = busy(gpu);", arrive="renewal(4)"
    ),
    WalkReason.LOOKAHEAD: text(),
    WalkReason.START: text(),
    WalkReason.MESSAGE: text("run d (1.3 * serial); run gpu decode (40);"),
}


@pytest.mark.parametrize("reason", WALKS, ids=lambda reason: reason.name)
def test_why_an_iteration_was_walked(reason: WalkReason) -> None:
    (engine,) = both(WALKS[reason])
    assert engine.walked_steps.get(reason, 0) > 0, engine.walked_steps
    assert sum(engine.walked_steps.values()) + engine.planned_steps == engine.iterations


def test_without_planning_every_iteration_names_the_reference() -> None:
    program = serq.compile(source=text())
    run = Simulation(
        program.ir, seed=1, horizon=100.0, warmup=0.0, arrivals=None, trace=None, engine="reference"
    )
    run.run()
    (engine,) = run.world.planners
    assert isinstance(engine, Engine) and engine.walked_steps == {WalkReason.REFERENCE: 40}


@pytest.mark.parametrize("reason", [WalkReason.COST, WalkReason.LIMITS, WalkReason.SCHEDULER])
def test_fast_or_not_at_all(reason: WalkReason) -> None:
    program = serq.compile(source=WALKS[reason])
    with pytest.raises(RunError, match=f"stage `gpu`: no step of it can be planned ahead: {reason.value}"):
        simulate(program.ir, engine="fast")
    assert simulate(serq.compile(source=text()).ir, engine="fast").ended == 2


def test_a_victim_in_a_settled_queue_is_looked_at_at_the_next_event_whatever_it_is() -> None:
    """R-B-006, also where that event is the end of a planned iteration of another engine (seed 456)."""
    both(random_step_program(456))


RECORDED = [recording for name, recording in recordings().items() if name not in deviations()]


@pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: recording.name)
def test_recorded_programs_come_to_the_same(recording: Recording) -> None:
    try:
        program = serq.compile(recording.path)
    except serq.CompileError:
        return
    if not any(isinstance(stage.kind, nodes.Step) for stage in program.ir.stages):
        return
    trace = program.read_trace()
    found = []
    for engine in ("reference", "auto"):
        try:
            found.append(recorded(simulate(program.ir, trace=trace, engine=engine)))  # type: ignore[arg-type]
        except RunError as error:
            assert error.records is not None
            found.append({"error": f"{error} {error.time}", **recorded(error.records)})
    assert found[0] == found[1]
