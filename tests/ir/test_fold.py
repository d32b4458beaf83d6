"""The value of what does not depend on the run (R-A-020 to R-A-026)."""

from __future__ import annotations

import math
from math import inf

import pytest

from serq.ir.fold import constant
from serq.ir.nodes import Expr, Observe
from tests.grammar.texts import program


def expression(text: str) -> Expr:
    (statement,) = program(f"stage s : fifo; session {{ observe x = {text}; }}").session
    assert isinstance(statement, Observe)
    return statement.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4 - 6 / 4", 12.5),
        ("-3 ^ 2", -9.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("2 ^ -2", 0.25),
        ("2 ^ !0", 2.0),
        ("1 < 2", 1.0),
        ("2 <= 1", 0.0),
        ("3 == 3", 1.0),
        ("3 != 3", 0.0),
        ("!0 + 1", 2.0),
        ("!5", 0.0),
        ("5 / 0", inf),
        ("-5 / 0", -inf),
        ("1 / (-0)", -inf),
        ("7 && -3", 1.0),
        ("0 || 0.5", 1.0),
        ("(0 / 0) ? 1 : 2", 1.0),
        ("0 / 0 == 0 / 0", 0.0),
        ("0 / 0 != 0 / 0", 1.0),
        ("min(0 / 0, 4)", 4.0),
        ("max(4, 0 / 0)", 4.0),
        ("floor(-2.5) + ceil(-2.5)", -5.0),
        ("abs(-2.5) * sqrt(4)", 5.0),
        ("pow(2, 10)", 1024.0),
        ("ln(exp(2))", 2.0),
        ("sum i in 4 (i * i)", 14.0),
        ("max i in 3 (i - 5)", -3.0),
        ("min i in 3 (i == 1 ? -7 : i)", -7.0),
        ("0 && now", 0.0),
        ("1 || now", 1.0),
        ("1 ? 2 : now", 2.0),
        ("0 ? ~exp(1) : 2", 2.0),
        ("inf", inf),
    ],
)
def test_constants(text: str, value: float) -> None:
    assert constant(expression(text)) == value


@pytest.mark.parametrize("text", ["0 / 0", "inf - inf", "sqrt(-1)", "-(0 / 0)", "0 * inf"])
def test_what_is_not_a_number(text: str) -> None:
    value = constant(expression(text))
    assert value is not None and math.isnan(value)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "now",
            "serial",
            "~det(1)",
            "queue(s)",
            "1 + now",
            "0 * now",
            "now && 0",
            "1 && now",
            "now ? 1 : 1",
        ),
        *("max(1, now)", "sum i in 3 (i * now)", "sum i in serial (1)", "sum i in 0 (i)"),
        "sum i in 20000 (i)",
        "sum i in 100 (sum j in 100 (i * j))",
    ],
)
def test_what_depends_on_the_run(text: str) -> None:
    assert constant(expression(text)) is None
