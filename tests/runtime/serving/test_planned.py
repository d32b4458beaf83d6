"""Plans of any length, read and told at any time, change nothing; every step that is walked says why."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from serq import api
from serq.errors import RunError
from serq.runtime.serving.engine import VllmEngine
from serq.runtime.simulation import Simulation, simulate
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.world import World
from tests.fuzz.engine_programs import EngineProgram
from tests.fuzz.fast_path import columns


def recorded(text: str, mode: Any) -> dict[str, Any]:
    program = api.compile(source=text)
    settings = program.ir.run
    assert settings.horizon is not None
    run = Simulation(
        program.ir, seed=settings.seed, horizon=settings.horizon, warmup=settings.warmup,
        arrivals=settings.arrivals, trace=None, engine=mode,
    )  # fmt: skip
    try:
        run.run(None)
    except RunError as error:
        return columns(run.records(stopped=error.message))
    return columns(run.records())


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_plans_of_random_length_record_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law L3; and what looks at the engines between two events, or cuts their plans, changes nothing (L4)."""
    text = EngineProgram(seed).text()
    expected = recorded(text, "reference")
    random = Random(seed)
    plan, advance = VllmEngine._plan, World.advance

    def shortened(engine: VllmEngine, end: float, now: float) -> list[float]:
        ends = plan(engine, end, now)
        return ends[: random.randint(1, len(ends))]

    def watched(world: World, horizon: float) -> bool:
        happened = advance(world, horizon)
        for engine in world.planners:
            looks: list[Callable[[], object]] = [engine.catch_up, engine.cut, int]
            if isinstance(engine, VllmEngine):
                looks += engine.tell_all, engine.kv_usage
            random.choice(looks)()
        return happened

    monkeypatch.setattr(VllmEngine, "_plan", shortened)
    monkeypatch.setattr(World, "advance", watched)
    assert recorded(text, "auto") == expected


LOAD = """
workload {{ arrive {arrive}; }}
stage think : delay;
session {{ {session} }}
run {{ horizon 5000; }}
"""
PLAIN = "num_gpu_blocks 500; max_model_len 400;"
ASK = "request r on engine (40, 30);"


def walked(
    options: str,
    *,
    cost: str = "10",
    arrive: str = "batch(3)",
    session: str = ASK,
    mode: Any = "planned",
    before: str = "",
    members: str = "",
) -> dict[str, int]:
    """Reason -> steps, of the first member."""
    stage = f"{before} stage engine{members} : vllm {{ {options} cost {cost}; }}"
    program = api.compile(source=stage + LOAD.format(arrive=arrive, session=session))
    return dict(simulate(program.ir, engine=mode).engines[0].walked_steps)


@pytest.mark.parametrize(
    ("reason", "settings"),
    [
        ("REFERENCE", {"options": PLAIN, "mode": "reference"}),
        ("SCHEDULER", {"options": PLAIN + "waiting batch_job_aware { max_jobs 3; }",
                       "session": "request r on engine (40, 30) job (1);"}),
        ("GROUPS", {"options": PLAIN + "group full { } group sliding { window 40; }"}),
        ("SPECULATION", {"options": PLAIN + "speculative ngram { k 2; accept 0.5, 0.5; }"}),
        ("CADENCE", {"options": PLAIN + "prefill_schedule_interval 2;"}),
        ("RANKS", {"options": PLAIN + "data_parallel_size 2;", "members": "[2]",
                   "session": "request r on engine[0] (40, 30);"}),
        ("STOP_RULE", {"options": PLAIN + "async_scheduling false;",
                       "session": "request r on engine (40, 30) max_tokens (5) min_tokens (20);"}),
        ("BUDGET", {"options": PLAIN + "max_num_batched_tokens 16; max_num_seqs 8;"
                                       "long_prefill_token_threshold 8;",
                    "arrive": "batch(4)", "session": "request r on engine (serial == 1 ? 5 : 200, 30);"}),
        ("COST", {"options": PLAIN, "cost": "10 + ~exp(1)"}),
        ("COST", {"options": PLAIN, "cost": "10 + queue(think)"}),
        ("START", {"options": PLAIN}),
        ("PREFILL", {"options": PLAIN + "max_num_batched_tokens 16; max_num_seqs 4;"}),
        ("FINISH", {"options": PLAIN, "session": "request r on engine (40, 10 + 10 * serial);"}),
        ("MESSAGE", {"options": PLAIN, "arrive": "renewal(95)"}),
        ("BLOCKS", {"options": "num_gpu_blocks 10; max_model_len 140; scheduler_reserve_full_isl false;",
                    "session": "request r on engine (30, 60);"}),
        ("PRIORITY", {"options": "num_gpu_blocks 10; max_model_len 140; waiting priority;",
                      "session": "request r on engine (30, 60);"}),
        ("LOOKAHEAD", {"options": PLAIN, "session": "request r on engine (40, 300);"}),
        ("INSTANT", {"options": PLAIN, "cost": "0.00000000000001", "session": f"run think (4000); {ASK}"}),
        ("OTHERS", {"options": PLAIN, "before": "pool room { cap 1; queue by (0 - waited); }",
                    "session": f"hold room (1) {{ {ASK} }}"}),
    ],
)  # fmt: skip
def test_every_reason_to_walk_is_met(reason: str, settings: dict[str, Any]) -> None:
    assert walked(**settings).get(WalkReason[reason].value, 0) > 0


def test_the_whole_list_is_tested_here_or_where_it_can_be_met() -> None:
    """A connector needs two stages, rows an executor; scenarios pause engines, and quote who still speaks.

    The last three are those of `step` stages alone.
    """
    elsewhere = {"CONNECTOR", "ROWS", "QUOTED", "WAITING", "PAUSED"} | {"FRACTIONS", "LIMITS", "TIE"}
    marks = test_every_reason_to_walk_is_met.pytestmark  # type: ignore[attr-defined]
    named = {case[0] for mark in marks for case in mark.args[1]}
    assert named | elsewhere == {reason.name for reason in WalkReason}


def test_an_engine_that_must_be_fast_refuses_what_never_is() -> None:
    with pytest.raises(RunError, match="no step of it can be planned ahead: speculative decoding"):
        walked(PLAIN + "speculative ngram { k 2; accept 0.5, 0.5; }", mode="fast")


def test_a_run_of_decodes_is_planned() -> None:
    """One request of 30 tokens: the step of its prompt is walked, those that follow are planned with it."""
    program = api.compile(
        source=f"stage engine : vllm {{ {PLAIN} async_scheduling false; cost 10; }}"
        + LOAD.format(arrive="batch(1)", session=ASK)
    )
    row = simulate(program.ir, engine="planned").engines[0]
    assert row.steps == 30
    assert row.planned_steps == 29
    assert list(row.table.end) == [10.0 * step for step in range(1, 31)]
