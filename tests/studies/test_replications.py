"""Student's intervals over replications."""

import pytest
from scipy import stats

from serq.studies.replications import Interval, interval, student_975


@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 9, 19, 30, 31, 35, 50, 99, 1000])
def test_the_quantile_is_that_of_student(degrees):
    assert student_975(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=3e-5)


def test_the_interval_of_three_values():
    # mean 4, sample variance (4 + 1 + 9) / 2 = 7, half-width 4.3027 * sqrt(7 / 3)
    assert interval([2.0, 3.0, 7.0]) == pytest.approx((4.0, 4.3027 * (7 / 3) ** 0.5))
    assert interval([5.0]) == Interval(5.0, None)
