"""Nodes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from serq.ir.nodes import Binary, Expr, Number, Observe, Unary
from serq.ir.printer import expression, statement
from serq.ir.validate.index import statements
from tests.grammar.texts import program
from tests.ir.expressions import DECLARATIONS, expressions


@settings(max_examples=200, deadline=None)
@given(expressions())
def test_a_printed_expression_means_what_it_meant(node: Expr) -> None:
    text = f"{DECLARATIONS} session {{ set a = 1; set b = 1; observe x = {expression(node)}; }}"
    observed = program(text).session[-1]
    assert isinstance(observed, Observe) and observed.value == node


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a + b * c",
            "(a + b) * c",
            "a - (b - c)",
            "a - b - c",
            "-a ^ b",
            "(-a) ^ b",
            "a ^ -b",
            "a ^ b ^ c",
        ),
        *("(a ^ b) ^ c", "!(a && b) || c", "a ? b : c ? a : b", "(a ? b : c) ? a : b", "(a < b) == c"),
        *("sum i in 3 (i + a)", "max i in (a + 1) (i)", "used(slots) + free(kv[a + 1])", "~exp(~det(2))"),
        *("max(a, min(b, 2.5))", "1e+300 * a", "0.001", "inf"),
    ],
)
def test_no_more_parentheses_than_needed(text: str) -> None:
    linked = program(f"{DECLARATIONS} session {{ set a = 1; set b = 1; set c = 1; observe x = {text}; }}")
    observed = linked.session[-1]
    assert isinstance(observed, Observe) and expression(observed.value) == text


def test_numbers_without_a_needless_point() -> None:
    assert expression(Number(3.0)) == "3"
    assert expression(Number(0.1)) == "0.1"
    assert expression(Number(1e300)) == "1e+300"
    assert expression(Binary("^", Number(-2.0), Number(2.0))) == "(-2) ^ 2"
    assert expression(Unary("-", Number(-2.0))) == "--2"


def test_statements_by_what_they_begin_with() -> None:
    text = """
      pool kv { } pool s { } stage gpu : step { cost 1; } stage a : ps(1); stage b : ps(1); share maxmin;
      session {
        turn; set x = 1; observe y = x + 1;
        hold kv (1), s (x) reserve (2) { grow kv (1); load kv (2); release kv; }
        drop kv; run gpu prefill (3) growing kv; run a, b (x);
        branch (x == 1) { } loop { end; }
      }
    """
    assert [statement(node) for node in statements(program(text).session)] == [
        "turn",
        "set x = 1",
        "observe y = x + 1",
        "hold kv (1), s (x)",
        "grow kv (1)",
        "load kv (2)",
        "release kv",
        "drop kv",
        "run gpu prefill (3) growing kv",
        "run a, b (x)",
        "branch (x == 1)",
        "loop",
        "end",
    ]
