"""Pools, stages, the workload, the run block: their nodes and their refusals."""

from __future__ import annotations

from math import inf

import pytest

from serq.ir.nodes import (
    Attribute,
    Batch,
    Binary,
    Closed,
    Conditional,
    Delay,
    Draw,
    Fifo,
    Number,
    Poisson,
    Pool,
    PoolRef,
    ProcessorSharing,
    Renewal,
    RunSettings,
    Spill,
    Stage,
    StageRef,
    Step,
    Traced,
    Unary,
    Variable,
    Workload,
)
from tests.grammar.texts import codes, errors, link, pointed, program

# --- pools (R-A-040 to R-A-042) -----------------------------------------------------------------------------


def pool(options: str, others: str = "") -> Pool:
    return program(f"pool p {{ {options} }} {others}").pools[0]


def test_a_pool_without_options() -> None:
    assert pool("") == Pool("p", 1, False, inf, None, (), "none", (), None, None)


def test_a_pool_with_every_option() -> None:
    options = """
      cap 4 * 2; block 2; evict by (age, -size); preempt lifo; queue by (-waited, serial); admit via e;
      spill t via l (size / 2) when (waiting == 0);
    """
    others = "pool t { } stage e : step { cost 1; } stage l : fifo;"
    assert pool(options, others) == Pool(
        "p",
        capacity=8.0,
        block=2.0,
        evict_by=(Variable("age"), Unary("-", Variable("size"))),
        preempt="lifo",
        queue_by=(Unary("-", Variable("waited")), Attribute("serial")),
        admit_via="e",
        spill=Spill(
            PoolRef("t"),
            StageRef("l"),
            Binary("/", Variable("size"), Number(2.0)),
            Binary("==", Variable("waiting"), Number(0.0)),
        ),
    )


def test_of_a_repeated_option_the_last_counts() -> None:
    assert pool("cap 1; cap 2; evict by (size); evict lru; queue by (serial); queue fifo;") == Pool(
        "p", capacity=2.0
    )


def test_families_have_a_constant_size() -> None:
    declared = program("let n = 2; pool p[n + 1] { } pool q[1] { } stage s[n] : delay;")
    assert [(p.count, p.family) for p in declared.pools] == [(3, True), (1, True)]
    assert declared.stages == (Stage("s", Delay(), 2, True),)


def test_a_negative_cap_and_an_infinite_block_are_accepted() -> None:
    assert (pool("cap -1; block inf;").capacity, pool("block inf;").block) == (-1.0, inf)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("pool p { cap serial; }", "E206", "serial"),
        ("pool p { cap ~det(1); }", "E206", "~det(1)"),
        ("pool p { cap 0 / 0; }", "E207", "0 / 0"),
        ("pool p { block 0; }", "E425", "block 0;"),
        ("pool p { block -1; }", "E425", "block -1;"),
        ("pool p[0] { }", "E215", "0"),
        ("pool p[1.5] { }", "E215", "1.5"),
        ("pool p[serial] { }", "E206", "serial"),
        ("pool p[2000000] { }", "E215", "2000000"),
        ("pool p { evict by (); }", "E110", ")"),
        ("pool p { queue by (); }", "E110", ")"),
        ("pool p { admit via nobody; }", "E209", "nobody"),
        ("pool p { admit via s; } stage s : fifo;", "E426", "admit via s;"),
        ("pool p { admit via s; } stage s[2] : step { cost 1; }", "E427", "admit via s;"),
        ("pool p { spill t via l (1) when (1); } stage l : fifo;", "E209", "t"),
        ("pool p { spill p via l (1) when (1); }", "E209", "l"),
        ("pool p { queue by (size); }", "E402", "size"),
        ("pool p { evict by (waited); }", "E402", "waited"),
        ("pool p { queue by (~exp(1)); }", "E405", "~exp(1)"),
    ],
)
def test_what_a_pool_cannot_be(text: str, code: str, place: str) -> None:
    (wrong,) = errors(text)
    assert (wrong.code, pointed(wrong)) == (code, place)


@pytest.mark.parametrize(("pools", "stages"), [(1, 1), (4, 1), (4, 4)])
def test_families_are_joined_one_to_one_or_all_to_one(pools: int, stages: int) -> None:
    assert not codes(f"pool p[{pools}] {{ admit via s; }} stage s[{stages}] : step {{ cost 1; }}")
    assert not codes(f"stage s[{pools}] : step {{ cost 1; memory p; }} pool p[{stages}] {{ }}")


@pytest.mark.parametrize(("one", "other"), [(1, 4), (4, 2), (2, 4)])
def test_other_families_do_not_fit(one: int, other: int) -> None:
    assert codes(f"pool p[{one}] {{ admit via s; }} stage s[{other}] : step {{ cost 1; }}") == ["E427"]
    assert codes(f"stage s[{one}] : step {{ cost 1; memory p; }} pool p[{other}] {{ }}") == ["E427"]


# --- stages (R-B-010 to R-B-045) ----------------------------------------------------------------------------


def kind(text: str) -> object:
    return program(f"pool p {{ }} stage s : {text}").stages[0].kind


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("fifo;", Fifo(1)),
        ("fifo(1 + 1);", Fifo(2)),
        ("delay;", Delay()),
        ("ps(2);", ProcessorSharing(Number(2.0))),
        ("ps(present - 1);", ProcessorSharing(Binary("-", Variable("present"), Number(1.0)))),
        ("step { cost 1; }", Step(Number(1.0))),
        ("step { cost tokens; };", Step(Variable("tokens"))),
        ("step { cost 1; cost 2; }", Step(Number(2.0))),
        (
            "step { budget 8; chunk 4; cost 1; memory p; }",
            Step(Number(1.0), Number(8.0), Number(4.0), memory="p"),
        ),
        ("step { cost 1; serve admission; }", Step(Number(1.0))),
        ("step { cost 1; serve exclusive prefill; }", Step(Number(1.0), exclusive_prefill=True)),
        (
            "step { cost 1; serve by (remaining, -serial); }",
            Step(Number(1.0), serve_by=(Variable("remaining"), Unary("-", Attribute("serial")))),
        ),
        (
            "step { cost 1; serve decode first; }",
            Step(Number(1.0), serve_by=(Conditional(Variable("decoding"), Number(0.0), Number(1.0)),)),
        ),
        (
            "step { cost 1; serve only (decoding); serve exclusive prefill; }",
            Step(Number(1.0), exclusive_prefill=True, serve_only=Variable("decoding")),
        ),
    ],
)
def test_kinds_of_stages(text: str, meaning: object) -> None:
    assert kind(text) == meaning


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("fifo(0);", "E215", "0"),
        ("fifo(1.5);", "E215", "1.5"),
        ("fifo(inf);", "E215", "inf"),
        ("fifo(serial);", "E206", "serial"),
        ("step { }", "E217", "s"),
        ("step { cost 1; memory q; }", "E209", "q"),
        ("step { cost 1; serve admission; serve by (1); }", "E218", "serve by (1);"),
        ("step { cost 1; serve only (1); serve only (1); }", "E218", "serve only (1);"),
        ("ps(serial);", "E403", "serial"),
        ("step { cost out; }", "E403", "out"),
        ("step { cost 1; budget serial; }", "E403", "serial"),
        ("step { cost 1; chunk new; }", "E403", "new"),
        ("step { cost 1; budget tokens; }", "E402", "tokens"),
        ("step { cost remaining; }", "E402", "remaining"),
        ("step { cost 1; serve by (~exp(1)); }", "E405", "~exp(1)"),
        ("step { cost 1; serve only (~exp(1)); }", "E405", "~exp(1)"),
        ("step { cost 1; budget 3 + budget_left(s); }", "E428", "budget 3 + budget_left(s);"),
    ],
)
def test_what_a_stage_cannot_be(text: str, code: str, place: str) -> None:
    (wrong,) = errors(f"pool p {{ }} stage s : {text}")
    assert (wrong.code, pointed(wrong)) == (code, place)


def test_budgets_may_read_one_another_but_not_in_a_circle() -> None:
    line = "stage a : step { cost 1; budget budget_left(b); } stage b : step { cost 1; budget 4; }"
    assert codes(line) == []
    circle = line.replace("budget 4", "budget 1 + budget_left(a)")
    assert codes(circle) == ["E428", "E428"]


@pytest.mark.parametrize("budget", ["0", "-1", "1 - 1"])
def test_an_engine_without_budget_is_suspicious(budget: str) -> None:
    (warning,) = link(f"stage s : step {{ cost 1; budget {budget}; }}").warnings
    assert (warning.code, warning.severity) == ("W601", "warning")


# --- workload (R-B-070 to R-B-083) --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("none", None),
        ("poisson(2)", Poisson(2.0)),
        ("poisson(0)", Poisson(0.0)),
        ("renewal(~exp(2))", Renewal(Draw("exp", (Number(2.0),), 0))),
        ("batch(3)", Batch(3)),
        ("batch(1.5)", Batch(1)),
        ("batch(-2)", Batch(0)),
        ("closed(0)", Closed(0)),
        ("trace", Traced()),
        ("trace(2)", Traced(2.0)),
    ],
)
def test_arrivals(text: str, meaning: object) -> None:
    assert program(f"workload {{ arrive {text}; }}").workload.arrive == meaning


def test_a_workload_with_everything() -> None:
    linked = program("""
      workload {
        arrive poisson(1); arrive batch(2);
        trace "a/b c.csv" ordered; hidden out, a; hidden think;
        init { set a = 1; }
      }
    """)
    assert linked.workload == Workload(
        Batch(2), "a/b c.csv", True, linked.workload.init, (), ("out", "a", "think")
    )


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("arrive poisson(-1);", "E429", "arrive poisson(-1);"),
        ("arrive poisson(inf);", "E429", "arrive poisson(inf);"),
        ("arrive poisson(~det(1));", "E206", "~det(1)"),
        ("arrive poisson(0 / 0);", "E207", "0 / 0"),
        ("arrive renewal(0);", "E429", "arrive renewal(0);"),
        ("arrive renewal(-1);", "E429", "arrive renewal(-1);"),
        ("arrive renewal(inf);", "E429", "arrive renewal(inf);"),
        ("arrive renewal(1 + now);", "E402", "now"),
        ("arrive renewal(1 + serial);", "E403", "serial"),
        ("arrive renewal(1 + queue(s));", "E406", "queue(s)"),
        ("arrive batch(inf);", "E215", "inf"),
        ("arrive batch(1000001);", "E429", "arrive batch(1000001);"),
        ("arrive trace(0);", "E429", "arrive trace(0);"),
        ("hidden cached;", "E408", "cached"),
        ("hidden computed;", "E408", "computed"),
        ("hidden serial, nothing;", "E408", "nothing"),
        ("init { run s (1); }", "E422", "run s (1);"),
        ("turn { end; }", "E422", "end;"),
        ("turn { branch (1) { } }", "E422", "branch (1) { }"),
    ],
)
def test_what_a_workload_cannot_be(text: str, code: str, place: str) -> None:
    (wrong,) = errors(f"stage s : fifo; workload {{ {text} }}")
    assert (wrong.code, pointed(wrong)) == (code, place)


def test_a_closed_population_must_take_time() -> None:
    closed = (
        "stage s : fifo; pool p {{ cap 1; }} pool big {{ }} workload {{ arrive closed(2); }} session {{ {} }}"
    )
    for session in ("run s (1);", "hold p (1) { }", "run s (serial);", "branch (serial) { run s (1); } end;"):
        assert codes(closed.format(session)) == [], session
    for session in ("", "end; run s (1);", "run s (0);", "hold big (1) { }", "branch (0) { run s (1); }"):
        assert codes(closed.format(session)) == ["E424"], session
    assert codes("workload { arrive closed(0); }") == []


# --- run block (R-B-090 to R-B-092) -------------------------------------------------------------------------


def run(text: str, arrive: str = "poisson(1)") -> RunSettings:
    return program(f"workload {{ arrive {arrive}; }} {text}").run


def test_run_settings() -> None:
    assert run("") == RunSettings()
    assert run("run { horizon 2 * 5; warmup 1; seed 7.9; arrivals 3.5; }") == RunSettings(10.0, 1.0, 7, 3)
    assert run("run { seed -3; }") == RunSettings(seed=0)
    assert run("run { horizon 1; } run { horizon 2; seed 3; } run { seed 4; }") == RunSettings(2.0, seed=4)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("horizon 0;", "E430", "0"),
        ("horizon -1;", "E430", "-1"),
        ("horizon inf;", "E430", "inf"),
        ("horizon serial;", "E206", "serial"),
        ("horizon 5; warmup 5;", "E430", "5"),
        ("horizon 5; warmup -1;", "E430", "-1"),
        ("arrivals 0;", "E430", "0"),
        ("seed inf;", "E215", "inf"),
        ("seed ~det(1);", "E206", "~det(1)"),
        ("speed 3;", "E111", "speed"),
    ],
)
def test_what_a_run_cannot_be(text: str, code: str, place: str) -> None:
    (wrong,) = errors(f"workload {{ arrive poisson(1); }} run {{ {text} }}")
    assert (wrong.code, pointed(wrong)) == (code, place)


@pytest.mark.parametrize("arrive", ["batch(3)", "closed(1)", "none"])
def test_a_limit_of_arrivals_needs_open_arrivals(arrive: str) -> None:
    text = f"stage s : delay; workload {{ arrive {arrive}; }} session {{ run s (1); }} run {{ arrivals 3; }}"
    assert codes(text) == ["E430"]
