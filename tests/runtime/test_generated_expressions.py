"""Expressions as generated Python: the same values at any depth, and nothing on the side not taken."""

from __future__ import annotations

from math import inf, isnan

import pytest

from tests.runtime.programs import batch, records, samples


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("-3^2", -9.0),
        ("2^3^2", 512.0),
        ("8 - 4 - 2", 2.0),
        ("8 - (4 - 2)", 6.0),
        ("(1 + 2) * 3 / 4", 2.25),
        ("2 * (3 / (4 / 5))", 7.5),
        ("!0 + 1", 2.0),
        ("!(1 < 2) || 0 && 1", 0.0),
        ("0.5 && -1", 1.0),
        ("serial ? 1 / serial : 4", 4.0),
        ("1 / (0 * -1)", -inf),
        ("min(0 / serial, 3)", 3.0),
        ("floor(-0.5) + ceil(0.2) * 10", 9.0),
    ],
)
def test_values(expression: str, value: float) -> None:
    assert samples(batch(f"observe x = {expression};")) == [value]


def test_the_side_not_taken_is_not_evaluated() -> None:
    pools = "pool p[2] { cap 1; }"
    source = batch("set j = 5; observe x = j < 2 ? used(p[j]) : 7; observe x = j < 2 && used(p[j]);", pools)
    assert samples(source) == [7.0, 0.0]


def test_long_sums_and_deep_nesting() -> None:
    """Python's parser gives up at 200 parentheses; the language does not."""
    sum_of_ones = " + ".join(["serial"] * 90) + " + 1"
    nested = "max(serial, " * 90 + "2" + ")" * 90
    choice = "".join(f"serial == {i} ? {i} : " for i in range(1, 90)) + "9"
    source = batch(f"observe x = {sum_of_ones}; observe x = {nested}; observe x = {choice};")
    assert samples(source) == [1.0, 2.0, 9.0]


@pytest.mark.parametrize("terms", [400, 2_000])
def test_long_chains_are_computed_from_the_left(terms: int) -> None:
    """Rounding shows the order: the terms are of very different sizes."""
    sizes = [(0.1 + i) * 10.0 ** (i % 17) for i in range(terms)]
    signs = ["+-"[i % 3 == 1] for i in range(terms)]
    text = "serial" + "".join(f" {sign} {size!r}" for sign, size in zip(signs, sizes, strict=True))
    total, quotient = 0.0, 1.0
    for sign, size in zip(signs, sizes, strict=True):
        total = total + size if sign == "+" else total - size
    factors = [1.0 + i % 7 / 10.0 for i in range(terms)]
    ratio = "(serial + 1)" + "".join(f" {'*/'[i % 2]} {f!r}" for i, f in enumerate(factors))
    by_values = "(serial + 1)" + "".join(f" {'*/'[i % 2]} ({f!r} + serial)" for i, f in enumerate(factors))
    for i, factor in enumerate(factors):
        quotient = quotient / factor if i % 2 else quotient * factor
    source = batch(f"observe x = {text}; observe x = {ratio}; observe x = {by_values};")
    assert samples(source) == [total, quotient, quotient]


@pytest.mark.parametrize("arms", [300, 2_000])
def test_a_table_of_steps(arms: int) -> None:
    table = "".join(f"at <= {i} ? {3 * i + 1} : " for i in range(arms)) + "-1"
    last = arms - 1
    session = "".join(f"set at = {at}; observe x = {table};" for at in (0, arms // 2 - 0.5, last, arms))
    assert samples(batch(session)) == [1.0, 3.0 * (arms // 2) + 1.0, 3.0 * last + 1.0, -1.0]


def test_long_conditions_stop_where_they_are_decided() -> None:
    """A side that is not taken would read a member that does not exist."""
    none, every = " || ".join(["serial > 1"] * 2_000), " && ".join(["serial < 1"] * 2_000)
    session = (
        f"set j = 5; observe x = {none}; observe x = {every};"
        f"observe x = {none} || 1 || used(p[j]); observe x = {every} && serial && used(p[j]);"
        f"branch ({every}) {{ observe x = 7; }} else {{ observe x = 8; }}"
    )
    assert samples(batch(session, "pool p[2] { cap 1; }")) == [0.0, 1.0, 1.0, 0.0, 7.0]


def test_undefined_results_are_nan() -> None:
    values = samples(batch("set z = 0; observe x = z / z; observe x = sqrt(z - 1); observe x = ln(z - 1);"))
    assert all(isnan(value) for value in values)


def test_names_that_python_would_fold_together_stay_apart() -> None:
    """Python reads the ligature as `fi`; the language does not (R-A-002)."""
    assert samples(batch("set fi = 1; set \ufb01 = 2; observe x = fi; observe x = \ufb01;")) == [1.0, 2.0]


def test_an_aggregate_inside_an_aggregate() -> None:
    pools = "pool p[3] { cap 9; }"
    source = batch("hold p[1] (4) { observe x = max i in 3 (used(p[i]) + (sum j in 3 (i * j))); }", pools)
    assert samples(source) == [7.0]


def test_programs_without_a_trace_of_python_names() -> None:
    """Words that mean something to Python mean nothing here."""
    source = batch("set class = 1; set s = 2; set clock = 3; observe import = class + s + clock;")
    assert records(source).series["import"].values == [6.0]
