"""Lets, attributes, and one name for one thing (R-A-005 to R-A-008)."""

from __future__ import annotations

from math import inf

import pytest

from serq.ir.nodes import Attribute, Binary, Number, Observe, PoolRead, PoolRef, Set, Variable
from tests.grammar.texts import codes, errors, link, pointed, program


def observed(text: str, **sets: str | float) -> list[object]:
    """The values of the observations of a program's session."""
    session = link(text, sets).program.session
    return [node.value for node in session if isinstance(node, Observe)]


def test_items_may_stand_in_any_order() -> None:
    parts = [
        "session { hold kv (n) { run gpu decode (1); } }",
        "pool kv { cap n; admit via gpu; }",
        "stage gpu : step { cost 1; memory kv; }",
        "let n = 3;",
        "run { horizon n; }",
        "workload { arrive batch(n); }",
    ]
    assert program("".join(parts)) == program("".join(reversed(parts)))


def test_a_let_reads_lets_above_it_and_everything_else_reads_the_last() -> None:
    text = """
      let base = 4;
      let twice = base * 2;
      session { observe v = twice; observe w = base; }
      let base = 7;
      let later = base + twice;
      session_marker
    """.replace("session_marker", "pool p { cap later; }")
    assert observed(text) == [Number(8.0), Number(7.0)]
    assert program(text).pools[0].capacity == 15.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("1 / 0", inf),
        ("-1 / 0", -inf),
        ("0 && (1 / 0 > 0) ? 1 : 2", 2.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("max(1, min(5, 3))", 3.0),
        ("!0 + 1", 2.0),
        ("sum i in 4 (i * i)", 14.0),
        ("max i in 3 (0 - i)", 0.0),
        ("1 ? 5 : 0 / 0", 5.0),
    ],
)
def test_lets_are_folded(text: str, value: float) -> None:
    assert observed(f"let a = {text}; session {{ observe x = a; }}") == [Number(value)]


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("let a = b; let b = 1;", "E201", "b"),
        ("let a = a;", "E201", "a"),
        ("let a = now;", "E206", "now"),
        ("let a = serial + 1;", "E206", "serial + 1"),
        ("let a = ~det(1);", "E206", "~det(1)"),
        ("let a = used(p); pool p { block 4; }", "E206", "used(p)"),
        ("let a = blocksize(p); pool p { block 4; }", "E206", "blocksize(p)"),
        ("let a = 0 / 0;", "E207", "0 / 0"),
        ("let a = inf - inf;", "E207", "inf - inf"),
        ("let serial = 1;", "E214", "serial"),
        ("let x = 1; session { choose x in 2 by (1); }", "E214", "x"),
    ],
)
def test_what_a_let_cannot_be(text: str, code: str, place: str) -> None:
    (wrong,) = errors(text)
    assert (wrong.code, pointed(wrong)) == (code, place)


def test_a_mistake_in_a_let_is_told_once() -> None:
    text = "let a = ghost; let b = a + 1; pool p { cap b; } session { observe x = a; }"
    assert [pointed(wrong) for wrong in errors(text)] == ["ghost"]


def test_a_let_may_be_named_like_what_the_language_supplies() -> None:
    text = "let now = 1; let inf = 2; let max = 3; let size = 4; "
    text += "session { observe a = now; observe b = inf; observe c = max + max(1, 2); observe d = size; }"
    now, infinity, largest, size = observed(text)
    assert (now, infinity, size) == (Number(1.0), Number(2.0), Number(4.0))
    assert isinstance(largest, Binary) and largest.left == Number(3.0)


def test_sets_replace_the_expression_of_a_let_before_folding() -> None:
    text = "let rate = 2; let gap = 1 / rate; session { observe x = gap; }"
    assert observed(text, rate=4) == [Number(0.25)]
    assert observed(text, rate="2 * 4") == [Number(0.125)]
    assert observed(text, gap="rate + 1") == [Number(3.0)]
    assert observed(text, rate=inf) == [Number(0.0)]
    assert observed("let rate = 1; let rate = 2; session { observe x = rate; }", rate=5) == [Number(5.0)]


@pytest.mark.parametrize("value", ["1; let b = 2", "1 +", "later", "serial", "", "0 / 0", float("nan")])
def test_what_a_let_cannot_be_set_to(value: str | float) -> None:
    assert errors("let a = 1; let later = 2;", {"a": value})


def test_attributes_are_the_names_that_statements_assign_anywhere() -> None:
    text = "session { observe x = a + b; } workload { init { set a = 1; } turn { set b = 2; } }"
    assert observed(text) == [Binary("+", Attribute("a"), Attribute("b"))]
    supplied = ["serial", "turn_no", "cached", "computed", "new", "out", "think", "more", "forced"]
    for name in supplied:
        assert observed(f"session {{ observe x = {name}; }}") == [Attribute(name)]


def test_supplied_attributes_may_be_assigned() -> None:
    text = "session { set turn_no = 6; set new = 9; observe x = turn_no; }"
    assert program(text).session[0] == Set("turn_no", Number(6.0), id=0)


@pytest.mark.parametrize(
    "name", ["now", "inf", "waited", "size", "tokens", "remaining", "present", "residents"]
)
def test_attributes_are_not_named_like_what_the_language_supplies(name: str) -> None:
    for statement in (f"set {name} = 1;", f"choose {name} in 2 by (1);"):
        (wrong,) = errors(f"session {{ {statement} observe x = 1; }}")
        assert (wrong.code, pointed(wrong)) == ("E407", name)


def test_pools_stages_observations_and_attributes_have_name_spaces_of_their_own() -> None:
    text = """
      pool x { cap 9; }
      stage x : delay;
      session { set x = 1; observe x = x + used(x); hold x (x) { run x (x); } }
    """
    value = Binary("+", Attribute("x"), PoolRead("used", PoolRef("x")))
    assert observed(text) == [value]


def test_an_observation_may_be_named_like_a_context_variable() -> None:
    assert observed("session { observe now = now; }") == [Variable("now")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("workload { } workload { }", "E219"),
        ("session { } session { }", "E219"),
        ("workload { session { request; } } session { } server { }", "E219"),
        ("share maxmin; share maxmin;", "E219"),
        ("pool p { } pool p { }", "E219"),
        ("stage s : delay; stage s : fifo;", "E219"),
    ],
)
def test_what_is_given_once(text: str, code: str) -> None:
    assert code in codes(text)


def test_the_nearest_name_is_offered() -> None:
    (wrong,) = errors("session { set prompt_tokens = 1; observe x = promt_tokens; }")
    assert wrong.help == "did you mean `prompt_tokens`?"
    (wrong,) = errors("pool blocks { } session { hold bloks (1) { } }")
    assert wrong.help == "did you mean `blocks`?"
    (wrong,) = errors("pool a { } pool b { } session { hold slots (1) { } }")
    assert wrong.help == "the pools are `a`, `b`"
