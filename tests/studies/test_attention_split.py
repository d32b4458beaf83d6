"""One attention call or two: statistics against SciPy and by hand, gates by the rows that were printed."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy.stats import rankdata, wilcoxon

from serq.kernels.fia.points import Heads
from serq.studies.attention_split import (
    GATES,
    Gate,
    amdahl,
    decode_keys_that_pay,
    deployments,
    gain,
    over_area,
    repeat_spread,
    runs_to_see,
    shapes,
    signed_rank,
    span,
    table,
)
from serq.studies.replications import paired_change, student_975


def gate(name: str) -> Gate:
    return next(gate for gate in GATES if gate.name == name)


def test_the_claims_of_the_printed_table() -> None:
    """W+ = 729.0, p = 1.90386e-06, n = 40, 29 above: as the pull request prints them."""
    test = signed_rank([row.paired_gain for row in table()], 0.05)
    assert (test.statistic, test.size, test.above) == (729.0, 40, 29)
    assert test.probability == pytest.approx(1.90386e-06, rel=5e-6)


@pytest.mark.parametrize("values", [
    [100 * gain(row) for row in table()],
    [100 * row.paired_gain for row in shapes()],
])  # fmt: skip
def test_the_signed_rank_test_is_that_of_scipy(values: list[float]) -> None:
    expected = wilcoxon(np.array(values) - 5, alternative="greater", method="exact")
    found = signed_rank(values, 5)
    assert found.statistic == expected.statistic
    assert found.probability == pytest.approx(expected.pvalue, rel=1e-9)


def test_equal_distances_share_their_rank() -> None:
    """Distances -1 1 1 2 and a value at the centre: all 16 ways to sign ranks 2 2 2 4, counted one by one."""
    found = signed_rank([4, 6, 6, 7, 5], 5)
    ranks = rankdata([1, 1, 1, 2])
    sums = [sum(r for r, up in zip(ranks, signs, strict=True) if up) for signs in product((0, 1), repeat=4)]
    assert found == (8.0, sum(s >= 8 for s in sums) / 16, 3, 4)


def test_forty_rows_are_thirty_two_shapes() -> None:
    """Seven shapes recur: 4/1 x 256 at 2, 4 and 8 ranks, six others twice."""
    assert (len(table()), len(span()), len(shapes())) == (40, 6, 32)
    (row,) = (row for row in shapes() if row.heads == Heads(4, 1, 256))
    assert row.paired_gain == pytest.approx((0.0308 + 0.0286 + 0.0303) / 3)
    assert repeat_spread() == pytest.approx(0.0081, abs=0.0006)  # 0.85 % of one call, 0.77 % of two


def test_printed_gains_are_no_ratio_of_printed_times() -> None:
    differences = [100 * abs(gain(row) - row.paired_gain) for row in table()]
    assert max(differences) == pytest.approx(0.34, abs=0.005)


def test_one_call_costs_a_constant_more_over_the_span() -> None:
    """Facts: 1.334 + 0.0992 and 0.703 + 0.1019 ms for a million pairs."""
    one, two = over_area(lambda row: row.mixed), over_area(lambda row: row.split)
    assert [1e3 * value for value in (*one, *two)] == pytest.approx([1.334, 0.0992, 0.703, 0.1019], abs=5e-4)


def test_the_gate_of_the_pull_request_is_right_in_every_row() -> None:
    """It excludes the four rows that lose, and no other: four heads are not below four."""
    rule = gate("4 heads or more at 256")
    left_out = {row.heads for row in table() if not rule.splits(row)}
    assert left_out == {Heads(1, 1, 256), Heads(2, 1, 256), Heads(3, 1, 256)}
    assert all(deployment.regret(rule) == 0.0 for deployment in deployments())
    assert all((gain(row) > 0) == rule.splits(row) for row in table())


def test_what_gates_cost_a_deployment() -> None:
    """Qwen3.5-27B on 8 ranks: 16 layers, 0.590 ms in one call, 0.609 in two; on one rank 3.774 and 3.181."""
    by_name = {deployment.name: deployment for deployment in deployments()}
    assert len(by_name) == 64
    eight, one = by_name["Qwen3.5-27B TP 8"], by_name["Qwen3.5-27B TP 1"]
    assert eight.regret(gate("always")) == pytest.approx(16 * 0.019e-3)
    assert eight.relative_regret(gate("always")) == pytest.approx(0.019 / 0.590)
    assert eight.regret(gate("never")) == one.regret(gate("always")) == 0.0
    assert one.regret(gate("never")) == one.saving == pytest.approx(16 * 0.593e-3)
    assert by_name["Qwen3.5-4B TP 4"].regret(gate("5 heads or more at 256")) == pytest.approx(8 * 0.020e-3)


def test_decodes_pay_for_a_second_call_from_so_many_keys() -> None:
    """24/4 x 256: a key costs 24 x 2.723e-10 s in one call, its 4096 bytes at 1166.6 GB/s in a call alone."""
    a_key = 24 * 0.05130829e-3 / (23 * 8192) - 4096 / 1166.5528e9
    assert decode_keys_that_pay(Heads(24, 4, 256), 20e-6) == pytest.approx(20e-6 / a_key, abs=1)
    assert decode_keys_that_pay(Heads(3, 1, 256), 0.0) is None


def test_amdahl_and_the_runs_that_it_takes() -> None:
    assert amdahl(0.08, 0.16) == pytest.approx(0.0130, abs=5e-5)  # 1 / (1 - 0.0128) - 1
    runs = runs_to_see(0.01, 0.02)
    # 2 (z + z)^2 (s / d)^2 = 62.8 by the normal, a little more by Student's quantiles
    assert 63 <= runs <= 65
    needed = 8 * (student_975(2 * runs - 2) + 0.841621) ** 2
    assert needed <= runs < needed + 1


def test_a_change_by_pairs() -> None:
    """Changes of 10 and 20 %: mean 15 %, half-width t(1) s / sqrt(2) with s = 0.0707."""
    found = paired_change([100.0, 200.0], [110.0, 240.0])
    assert found.mean == pytest.approx(0.15)
    assert found.half_width == pytest.approx(12.7062 * sqrt(0.005) / sqrt(2), rel=1e-5)
    with pytest.raises(ValueError, match="shorter"):
        paired_change([1.0, 2.0], [1.0])
