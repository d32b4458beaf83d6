from math import copysign, inf, isnan, nan

import pytest

from serq.ir import arithmetic as a


@pytest.mark.parametrize(
    ("left", "right", "quotient"),
    [(1.0, 0.0, inf), (1.0, -0.0, -inf), (-2.0, 0.0, -inf), (6.0, 4.0, 1.5), (inf, 0.0, inf)],
)
def test_division_is_ieee(left: float, right: float, quotient: float) -> None:
    assert a.divide(left, right) == quotient


def test_division_without_a_value_is_nan() -> None:
    assert all(isnan(a.divide(*pair)) for pair in [(0.0, 0.0), (inf, inf), (nan, 0.0)])


def test_min_and_max_ignore_nan() -> None:
    assert a.minimum(nan, 3.0) == a.minimum(3.0, nan) == a.maximum(nan, 3.0) == a.maximum(3.0, nan) == 3.0


@pytest.mark.parametrize(
    ("base", "exponent", "value"),
    [(2.0, -2.0, 0.25), (0.0, -1.0, inf), (-0.0, -1.0, -inf), (0.0, -2.0, inf), (10.0, 400.0, inf),
     (-10.0, 401.0, -inf), (-10.0, 400.0, inf), (nan, 0.0, 1.0)],
)  # fmt: skip
def test_power_never_raises(base: float, exponent: float, value: float) -> None:
    assert a.power(base, exponent) == value


def test_power_of_a_negative_base_to_a_fraction_is_nan() -> None:
    assert isnan(a.power(-8.0, 1.0 / 3.0))


def test_rounding_keeps_what_is_not_finite_and_the_sign_of_zero() -> None:
    assert a.floor(-0.5) == -1.0 and a.floor(2.9) == 2.0 and a.ceil(2.1) == 3.0
    assert copysign(1.0, a.ceil(-0.5)) == -1.0 and copysign(1.0, a.floor(-0.0)) == -1.0
    assert a.floor(inf) == inf and isnan(a.ceil(nan))


def test_sqrt_exp_ln_outside_their_range() -> None:
    assert isnan(a.sqrt(-1.0)) and isnan(a.ln(-1.0)) and a.ln(0.0) == -inf and a.exp(1000.0) == inf


def test_nan_is_true() -> None:
    assert a.truth(nan) and a.truth(-0.5) and not a.truth(-0.0)


def test_total_order_puts_nan_outside_and_negative_zero_first() -> None:
    ordered = [
        -nan if copysign(1.0, nan) > 0 else nan,
        -inf,
        -2.0,
        -1.0,
        -0.0,
        0.0,
        5e-324,
        1.0,
        inf,
        abs(nan),
    ]
    keys = [a.total_order(value) for value in ordered]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
