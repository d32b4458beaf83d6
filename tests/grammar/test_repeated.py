"""Names given twice where the reference refuses it."""

from __future__ import annotations

from tests.grammar.texts import errors, in_session, pointed


def test_a_name_is_bound_once_in_a_header() -> None:
    (wrong,) = errors(in_session("hold p (1) at admission (n = 1, m = 2, n = 3) { }", "pool p { }"))
    assert (wrong.code, wrong.message) == ("E213", "`n` is bound twice in one `at admission`")
    assert pointed(wrong) == "n"


def test_an_attribute_is_hidden_once() -> None:
    text = "workload { hidden a; hidden b, a; init { set a = 1; set b = 2; } } run { horizon 1; }"
    (wrong,) = errors(text)
    assert (wrong.code, wrong.message, pointed(wrong)) == ("E408", "`a` is hidden twice", "a")


def test_a_let_does_not_read_itself() -> None:
    (wrong,) = errors("let a = a + 1;\nrun { horizon 1; }")
    assert (wrong.code, wrong.place) == ("E201", "test.sq:1:9")
