"""Expressions: what binds to what, and what calls and names mean (R-A-005, R-A-020 to R-A-031)."""

from __future__ import annotations

from math import inf

import pytest

from serq.ir.nodes import (
    Aggregate,
    Attribute,
    Binary,
    Call,
    Conditional,
    Draw,
    Expr,
    Local,
    Number,
    Observe,
    PoolRead,
    PoolRef,
    StageRead,
    StageRef,
    Unary,
    Variable,
)
from tests.grammar.texts import codes, errors, pointed, program

DECLARATIONS = """
pool kv[2] { cap 9; }
pool slots { cap 2; }
stage gpu : step { cost 1; }
stage link[3] : fifo;
session { set a = 1; set b = 2; set c = 3; set d = 4; observe x = TEXT; }
"""


def expression(text: str) -> Expr:
    statement = program(DECLARATIONS.replace("TEXT", text)).session[-1]
    assert isinstance(statement, Observe)
    return statement.value


A, B, C, D = (Attribute(name) for name in "abcd")


def minus(operand: Expr) -> Unary:
    return Unary("-", operand)


def not_(operand: Expr) -> Unary:
    return Unary("!", operand)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        # tightest first: ^, unary, * and /, + and -, comparisons, &&, ||, ?:
        ("a + b * c", Binary("+", A, Binary("*", B, C))),
        ("a * b + c", Binary("+", Binary("*", A, B), C)),
        ("(a + b) * c", Binary("*", Binary("+", A, B), C)),
        ("a - b - c", Binary("-", Binary("-", A, B), C)),
        ("a / b * c", Binary("*", Binary("/", A, B), C)),
        ("a - (b - c)", Binary("-", A, Binary("-", B, C))),
        ("-a ^ b", minus(Binary("^", A, B))),
        ("a ^ b ^ c", Binary("^", A, Binary("^", B, C))),
        ("a ^ -b", Binary("^", A, minus(B))),
        ("a ^ !b ^ c", Binary("^", A, not_(Binary("^", B, C)))),
        ("(-a) ^ b", Binary("^", minus(A), B)),
        ("!a + b", Binary("+", not_(A), B)),
        ("!a == b", Binary("==", not_(A), B)),
        ("- - a", minus(minus(A))),
        ("!-a", not_(minus(A))),
        ("-a * b", Binary("*", minus(A), B)),
        ("a + b < c * d", Binary("<", Binary("+", A, B), Binary("*", C, D))),
        ("a < b && c >= d", Binary("&&", Binary("<", A, B), Binary(">=", C, D))),
        ("a || b && c", Binary("||", A, Binary("&&", B, C))),
        ("a && b || c && d", Binary("||", Binary("&&", A, B), Binary("&&", C, D))),
        ("a || b || c", Binary("||", Binary("||", A, B), C)),
        ("a || b ? c : d", Conditional(Binary("||", A, B), C, D)),
        ("a ? b : c ? d : a", Conditional(A, B, Conditional(C, D, A))),
        ("a ? b ? c : d : a", Conditional(A, Conditional(B, C, D), A)),
        ("(a < b) == c", Binary("==", Binary("<", A, B), C)),
        ("a != b", Binary("!=", A, B)),
    ],
)
def test_what_binds_to_what(text: str, meaning: Expr) -> None:
    assert expression(text) == meaning


@pytest.mark.parametrize("text", ["a < b < c", "a == b == c", "a < b == c", "a != b > c"])
def test_comparisons_do_not_chain(text: str) -> None:
    (wrong,) = errors(DECLARATIONS.replace("TEXT", text))
    assert wrong.message == "comparisons do not chain"
    assert pointed(wrong) in ("<", "==", ">", "!=")


@pytest.mark.parametrize(
    "text", ["a % b", "a and b", "not a", "true", "a ? b", "a b", "()", "max(a, b,)", "a = b"]
)
def test_what_is_no_expression(text: str) -> None:
    assert codes(DECLARATIONS.replace("TEXT", text))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("min(a, b)", Call("min", (A, B))),
        ("max(a, 2)", Call("max", (A, Number(2.0)))),
        ("pow(a, b)", Call("pow", (A, B))),
        ("abs(a)", Call("abs", (A,))),
        ("floor(a)", Call("floor", (A,))),
        ("ceil(a)", Call("ceil", (A,))),
        ("sqrt(a)", Call("sqrt", (A,))),
        ("exp(a)", Call("exp", (A,))),
        ("ln(a)", Call("ln", (A,))),
        ("now", Variable("now")),
        ("inf", Number(inf)),
        ("-inf", minus(Number(inf))),
        ("serial", Attribute("serial")),
        ("used(slots)", PoolRead("used", PoolRef("slots"))),
        ("free(slots[0])", PoolRead("free", PoolRef("slots", Number(0.0)))),
        ("cachedin(kv[a + 1])", PoolRead("cachedin", PoolRef("kv", Binary("+", A, Number(1.0))))),
        ("holders(kv[0]) + queued(kv[1])", Binary(
            "+",
            PoolRead("holders", PoolRef("kv", Number(0.0))),
            PoolRead("queued", PoolRef("kv", Number(1.0))),
        )),
        ("queue(link[2])", StageRead("queue", StageRef("link", Number(2.0)))),
        ("budget_left(gpu)", StageRead("budget_left", StageRef("gpu"))),
        ("max j in 3 (work(link[j]))", Aggregate(
            "max", "j", Number(3.0), StageRead("work", StageRef("link", Local("j")))
        )),
        ("sum j in a (j * b)", Aggregate("sum", "j", A, Binary("*", Local("j"), B))),
        ("min a in (b + c) (a)", Aggregate("min", "a", Binary("+", B, C), Local("a"))),
        ("max i in 2 (min j in 2 (i - j))", Aggregate(
            "max", "i", Number(2.0), Aggregate("min", "j", Number(2.0), Binary("-", Local("i"), Local("j")))
        )),
    ],
)  # fmt: skip
def test_what_names_and_calls_mean(text: str, meaning: Expr) -> None:
    assert expression(text) == meaning


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("max(a)", "E205", "max(a)"),
        ("abs(a, b)", "E205", "abs(a, b)"),
        ("~exp()", "E205", "~exp()"),
        ("~uniform(1)", "E205", "~uniform(1)"),
        ("used(kv[0], kv[1])", "E205", "used(kv[0], kv[1])"),
        ("sum(a, b)", "E202", "sum"),
        ("ghost(a)", "E202", "ghost"),
        ("now()", "E202", "now"),
        ("~normal(1)", "E203", "normal"),
        ("~lognormal(1)", "E205", "~lognormal(1)"),
        ("~lognormal(a, -1)", "E450", "-1"),
        ("~lognormal(a, inf)", "E450", "inf"),
        ("~gamma(1 - 1, a)", "E450", "1 - 1"),
        ("used(gpu)", "E204", "gpu"),
        ("queue(slots)", "E204", "slots"),
        ("used(3)", "E204", "3"),
        ("used((slots))", "E204", "(slots)"),
        ("used(ghost)", "E209", "ghost"),
        ("ghost", "E201", "ghost"),
        ("slots", "E201", "slots"),
        ("max", "E201", "max"),
        ("abs(kv[0])", "E201", "kv[0]"),
        ("used(kv)", "E409", "kv"),
        ("used(kv[2])", "E410", "2"),
        ("used(kv[0.5])", "E410", "0.5"),
        ("used(kv[-1])", "E410", "-1"),
        ("used(slots[1])", "E410", "1"),
        ("blocksize(slots)", "E411", "blocksize(slots)"),
        ("budget_left(link[0])", "E411", "budget_left(link[0])"),
        ("max j in 1.5 (j)", "E420", "1.5"),
        ("tokens", "E402", "tokens"),
    ],
)
def test_what_they_cannot_mean(text: str, code: str, place: str) -> None:
    (wrong,) = errors(DECLARATIONS.replace("TEXT", text))
    assert (wrong.code, pointed(wrong)) == (code, place)


def test_draws_are_numbered_within_their_section_in_the_order_of_the_text() -> None:
    linked = program("""
      pool p { evict by (~det(1), ~det(2)); }
      stage s : step { budget ~det(3); cost ~exp(4) + ~exp(5); }
      stage t : ps(~det(6));
      workload {
        arrive renewal(~exp(1) + ~exp(2));
        turn { set b = ~exp(8); }
        init { set a = ~exp(7); }
      }
      session {
        set c = ~exp(~uniform(1, 2));
        branch with (0.5) { set d = ~det(1); }
        hold p (~det(1)) reserve (~det(2)) { observe e = ~det(3); } cache (~det(4))
      }
    """)

    def sites(*nodes: object) -> list[int]:
        return [node.site for node in nodes if isinstance(node, Draw)]

    assert sites(*linked.pools[0].evict_by) == [0, 1]
    step, ps = linked.stages[0].kind, linked.stages[1].kind
    assert sites(step.budget, step.cost.left, step.cost.right) == [0, 1, 2]  # type: ignore[union-attr]
    assert sites(ps.capacity) == [0]  # type: ignore[union-attr]
    workload = linked.workload
    assert sites(workload.arrive.gap.left, workload.arrive.gap.right) == [0, 1]  # type: ignore[union-attr]
    assert sites(workload.init[0].value, workload.turn[0].value) == [0, 1]  # type: ignore[union-attr]
    draw, branch, hold = linked.session
    assert sites(draw.value, draw.value.arguments[0]) == [0, 1]  # type: ignore[union-attr]
    assert sites(branch.condition, branch.then[0].value) == [2, 3]  # type: ignore[union-attr]
    unit = hold.units[0]  # type: ignore[union-attr]
    assert sites(unit.units, unit.reserve, hold.body[0].value, hold.cache) == [4, 5, 6, 7]  # type: ignore[union-attr]
