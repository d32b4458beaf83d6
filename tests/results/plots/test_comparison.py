"""What the picture of a comparison draws."""

from math import isnan, nan

import pytest

from serq.errors import UsageError
from serq.results.plots.comparison import Bar, Change, bars, comparison
from serq.results.plots.style import save

CHANGES = [
    Change("e2e mean", 4.0, 1.0, 0.5, "worse"),
    Change("e2e p99", -2.0, -1.0, nan, "not judged"),
    Change("nothing", 0.0, 1.0, 0.1, "higher"),
    Change("never", nan, nan, nan, "not judged"),
]


def test_bars_are_percent_of_a():
    first, second = bars(CHANGES)
    assert first == Bar("e2e mean", 25.0, 12.5, "worse")
    assert (second.name, second.percent) == ("e2e p99", -50.0) and isnan(second.half_width)
    with pytest.raises(UsageError, match="no difference to draw"):
        bars(CHANGES[2:])


def test_the_figure_names_both_sides_and_is_the_same_bytes(tmp_path):
    files = [save(comparison(CHANGES, ("a.sq", "b.sq x=2")), tmp_path / f"{n}.svg") for n in (1, 2)]
    assert files[0].read_bytes() == files[1].read_bytes()
    text = files[0].read_text()
    assert "B: b.sq x=2" in text and "e2e mean" in text and "nothing" not in text
