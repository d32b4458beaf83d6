"""Defs: a use is the body with the arguments put in (R-A-009 to R-A-011)."""

from __future__ import annotations

import pytest

from serq.ir.nodes import (
    Attribute,
    Binary,
    Block,
    Expr,
    Hold,
    HoldUnit,
    Number,
    Observe,
    PoolRead,
    PoolRef,
    Run,
    Set,
    StageRef,
    Variable,
)
from tests.grammar.texts import codes, errors, link, pointed, program


def session(text: str) -> Block:
    return program(text).session


def value(text: str) -> Expr:
    statement = session(text)[-1]
    assert isinstance(statement, Observe)
    return statement.value


def test_arguments_and_bodies_are_put_in_as_if_in_parentheses() -> None:
    text = "def f(x, k) = x * k; session { set a = 1; observe v = 2 * f(a + 1, 3 + 4) ^ 2; }"
    body = Binary("*", Binary("+", Attribute("a"), Number(1.0)), Binary("+", Number(3.0), Number(4.0)))
    assert value(text) == Binary("*", Number(2.0), Binary("^", body, Number(2.0)))


def test_defs_use_defs_above_them_and_their_arguments_too() -> None:
    text = "def inc(x) = x + 1; def twice(x) = inc(x) * 2; session { observe v = inc(twice(inc(5))); }"
    five = Binary("+", Number(5.0), Number(1.0))
    twice = Binary("*", Binary("+", five, Number(1.0)), Number(2.0))
    assert value(text) == Binary("+", twice, Number(1.0))


def test_a_parameter_hides_everything_of_its_name() -> None:
    text = "let n = 7; def f(n, now) = n + now; session { set a = 1; observe v = f(a, 2); }"
    assert value(text) == Binary("+", Attribute("a"), Number(2.0))


def test_a_body_reads_attributes_and_lets_even_later_ones() -> None:
    text = "def f() = a + n; session { set a = 1; observe v = f(); } let n = 7;"
    assert value(text) == Binary("+", Attribute("a"), Number(7.0))


def test_in_a_let_a_body_reads_the_lets_above_that_let() -> None:
    text = (
        "let n = 1; def f(x) = x + n; let b = f(1); let n = 5; session { observe v = b; observe w = f(1); }"
    )
    first, second = session(text)
    assert first == Observe("v", Number(2.0), id=0)
    assert second == Observe("w", Binary("+", Number(1.0), Number(5.0)), id=1)


def test_names_in_an_argument_mean_what_they_mean_at_the_call() -> None:
    # `k` of the argument is the attribute, not the index that the body binds; `x` is the caller's parameter
    text = """
      def most(x) = max k in 3 (x + k);
      def outer(x) = most(x);
      session { set k = 1; observe v = most(k); observe w = outer(k * 2); }
    """
    of_k, of_twice = (node.value.body.left for node in session(text)[1:])  # type: ignore[union-attr]
    assert of_k == Attribute("k")
    assert of_twice == Binary("*", Attribute("k"), Number(2.0))


def test_a_statement_def_is_spliced_with_pools_and_stages_for_parameters() -> None:
    text = """
      def take(p, n, s) { hold p (n) { observe seen = used(p); set got = n; run s (1); } }
      stage think[2] : delay;
      pool many[2] { cap 5; }
      session { take(many[1], 2, think[0]); observe v = got; }
    """
    pool, stage = PoolRef("many", Number(1.0)), StageRef("think", Number(0.0))
    body = (
        Observe("seen", PoolRead("used", pool), id=1),
        Set("got", Number(2.0), id=2),
        Run((stage,), Number(1.0), id=3),
    )
    assert session(text) == (
        Hold((HoldUnit(pool, Number(2.0)),), body, id=0),
        Observe("v", Attribute("got"), id=4),
    )


def test_a_pool_passes_through_several_defs() -> None:
    text = """
      pool many[2] { cap 5; }
      def room(p) = free(p);
      def look(q, j) { observe v = room(q); observe w = room(many[j]); }
      session { look(many[1], 0); }
    """
    of_q, of_index = (node.value for node in session(text))  # type: ignore[union-attr]
    assert of_q == PoolRead("free", PoolRef("many", Number(1.0)))
    assert of_index == PoolRead("free", PoolRef("many", Number(0.0)))


def test_an_index_may_be_added_to_a_family_passed_by_name() -> None:
    text = "pool many[3] { } def look(p) { observe v = used(p[2]); } session { look(many); }"
    assert value(text) == PoolRead("used", PoolRef("many", Number(2.0)))


def test_attributes_that_a_body_sets_exist_only_where_the_def_is_used() -> None:
    assert codes("def f() { set zz = 1; } session { observe v = zz; }") == ["E201"]
    assert codes("def f() { set zz = 1; } session { f(); observe v = zz; }") == []


def test_an_unused_parameter_is_fine_whatever_is_passed() -> None:
    assert value("def f(x) = 1; session { observe v = f(ghost); }") == Number(1.0)


def test_end_is_allowed_in_a_def() -> None:
    assert codes("def stop() { end; } session { stop(); }") == []


def test_a_draw_is_passed_to_a_parameter_that_is_read_once() -> None:
    assert codes("def f(x) = x + 1; session { observe v = f(~exp(1)); }") == []
    assert codes("def f(x) { observe v = x; } session { f(~exp(1)); }") == []


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("def f(x) = x; def f(x) = x;", "E302", "f"),
        ("def f(x, x) = x;", "E302", "x"),
        ("def used(x) = x;", "E301", "used"),
        ("def exp(x) = x;", "E301", "exp"),
        ("def admit(x) = x;", "E106", "admit"),
        ("def f(hold) = hold;", "E301", "hold"),
        ("def f(x) = x; let f = 1;", "E214", "f"),
        ("def f(x) = x; pool f { }", "E214", "f"),
        ("def f(x) = x; stage f : delay;", "E214", "f"),
        ("def f(x) = f(x);", "E303", "f"),
        ("def f(x) = g(x); def g(x) = x;", "E303", "g"),
        ("session { observe v = f(1); } def f(x) = x;", "E303", "f"),
        ("def f(x) = x; session { observe v = f(); }", "E205", "f()"),
        ("def f() { } session { f(1); }", "E205", "f(1);"),
        ("def f(x) = x; session { f(1); }", "E304", "f"),
        ("def f(x) { } session { observe v = f(1); }", "E304", "f(1)"),
        ("def f(x) { set x = 1; }", "E307", "x"),
        ("def f(x) { choose x in 2 by (1); }", "E307", "x"),
        ("def f(x) { observe x = 1; }", "E307", "x"),
        ("def f(x) = max x in 2 (x);", "E307", "x"),
        ("pool p { } def f(x) { hold p (1) at admission (x = 1) { } }", "E307", "x"),
        ("def f(x) = x * x; session { observe v = f(~exp(1)); }", "E305", "~exp(1)"),
        ("def g(x) = x * x; def f(x) = g(x); session { observe v = f(~exp(1)); }", "E305", "x"),
        ("def f(x) { observe v = x; observe w = x; } session { f(~det(1)); }", "E305", "~det(1)"),
        ("def f(x) { observe v = x; } session { f(now); }", "E308", "now"),
        ("def f(x) { observe v = 1; } session { f(now + 1); }", "E308", "now + 1"),
        ("pool p { } def f(x) { observe v = x; } session { f(used(p)); }", "E308", "used(p)"),
        ("def f(x) { set a = 1; observe v = x; } session { f(a); }", "E308", "a"),
        ("def g() { set a = 1; } def f(x) { g(); observe v = x; } session { f(a); }", "E308", "a"),
        ("def f(p) = used(p); session { observe v = f(3); }", "E204", "3"),
        ("pool q { } def f(p) = used(p); session { observe v = f((q)); }", "E204", "(q)"),
        ("def f(x) = ghost; session { observe v = f(1); }", "E201", "ghost"),
        ("session { nothing(1); }", "E202", "nothing"),
    ],
)
def test_what_a_def_cannot_be(text: str, code: str, place: str) -> None:
    wrong = errors(text)[0]
    assert (wrong.code, pointed(wrong)) == (code, place)


def test_an_expression_def_may_be_given_the_clock_and_live_state() -> None:
    text = "def age(since) = now - since; pool p { } session { observe v = age(now) + age(used(p)); }"
    assert isinstance(value(text), Binary)
    assert Binary("-", Variable("now"), Variable("now")) == value(text).left  # type: ignore[union-attr]


def test_a_mistake_in_a_body_names_the_calls_that_spliced_it_in() -> None:
    text = "def f(p) = used(p);\ndef g(p) = f(p);\npool kv[2] { }\nsession { observe v = g(kv); }"
    (wrong,) = errors(text)
    assert (wrong.code, wrong.place, pointed(wrong)) == ("E409", "test.sq:1:17", "p")
    assert wrong.message == "`kv` is a family of 2: say which member"
    assert wrong.notes == (
        "in the body spliced in at test.sq:2:12",
        "in the body spliced in at test.sq:4:23",
    )


def test_a_def_that_nobody_uses_is_not_looked_into() -> None:
    assert codes("def f(x) = ghost + x;") == []


def test_source_places_of_spliced_statements_are_those_of_the_body() -> None:
    linked = link("def f() {\n  observe v = 1;\n}\nsession { f(); end; }")
    places = {number: place.text for number, place in linked.source_map.statements.items()}
    assert places == {0: "observe v = 1;", 1: "end;"}


def test_words_added_to_the_language_may_name_defs() -> None:
    # rule (1) of the language page: only base words are refused as names (R-A-004)
    added = "sum only vllm gauge slo expect connector executor class prefix gamma lognormal"
    for name in added.split():
        assert codes(f"def {name}(x) = x; session {{ observe v = {name}(1); }}") == [], name
        assert codes(f"def {name}(x) {{ observe v = x; }} session {{ {name}(1); }}") == [], name
