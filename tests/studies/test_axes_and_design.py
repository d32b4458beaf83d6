"""Axes mean what people write, and designs cover them."""

import pytest

from serq.errors import UsageError
from serq.studies.axes import Axis, Between, parse_axis
from serq.studies.design import grid, latin_hypercube


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("rate=1,2,4", ("1", "2", "4")),
        ("rate=0.1:0.5:0.1", ("0.1", "0.2", "0.3", "0.4", "0.5")),  # in decimal: no 0.30000000000000004
        ("rate=1:10:4", ("1", "5", "9")),
        ("rate=3:1:-1", ("3", "2", "1")),
        ("B=512:4096:*2", ("512", "1024", "2048", "4096")),
        ("B=1e3:3e3:1e3", ("1000", "2000", "3000")),
        ("x=min(1, 2), 3", ("min(1, 2)", "3")),
        ("x = 7", ("7",)),
    ],
)
def test_values_of_an_axis(text, values):
    name = text.partition("=")[0].strip()
    assert parse_axis(text) == Axis(name, values)


def test_a_span_has_two_ends():
    assert parse_axis("rate=0.5..8") == Between("rate", 0.5, 8.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate", "write NAME=VALUES"),
        ("rate=", "write NAME=VALUES"),
        ("rate=1:5", "three parts"),
        ("rate=1:5:0", "do not lead"),
        ("rate=5:1:1", "do not lead"),
        ("rate=a:5:1", "not a number"),
        ("rate=1:inf:1", "not finite"),
        ("rate=1,,2", "empty"),
        ("rate=1,2,1", "stands twice"),
        ("rate=0:1:1e-9", "more than 100,000"),
        ("rate=0:8:*2", "0 < first"),
        ("rate=1:8:*1", "factor above 1"),
        ("rate=4..4", "not below"),
        ("rate=1..2..3", "LOW..HIGH"),
    ],
)
def test_what_is_no_axis(text, said):
    with pytest.raises(UsageError, match=said):
        parse_axis(text)


def test_a_grid_is_every_combination_the_last_axis_fastest():
    points = grid([Axis("a", ("1", "2")), Axis("b", ("x", "y", "z"))])
    assert [tuple(point.sets.values()) for point in points] == [
        ("1", "x"), ("1", "y"), ("1", "z"), ("2", "x"), ("2", "y"), ("2", "z"),
    ]  # fmt: skip
    assert [point.index for point in points] == [0, 1, 2, 3, 4, 5]
    assert [dict(point.sets) for point in grid([])] == [{}]


def test_a_grid_needs_steps_and_names_once():
    with pytest.raises(UsageError, match="no steps"):
        grid([Between("a", 0.0, 1.0)])
    with pytest.raises(UsageError, match="two axes"):
        grid([Axis("a", ("1",)), Axis("a", ("2",))])


def test_a_latin_hypercube_uses_every_strip_of_every_axis_once():
    size = 40
    points = latin_hypercube([Between("a", 10.0, 20.0), Axis("b", ("0", "1"))], size, seed=3)
    a = [float(point.sets["a"]) for point in points]
    assert sorted(int((value - 10.0) / 10.0 * size) for value in a) == list(range(size))
    assert [point.sets["b"] for point in points].count("1") == size // 2
    assert a != sorted(a)
    assert points == latin_hypercube([Between("a", 10.0, 20.0), Axis("b", ("0", "1"))], size, seed=3)
    assert points != latin_hypercube([Between("a", 10.0, 20.0), Axis("b", ("0", "1"))], size, seed=4)
