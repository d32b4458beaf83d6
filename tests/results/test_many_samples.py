"""Figures of very many samples, which numpy comes to, are bit for bit those of plain Python."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from array import array
from collections.abc import Sequence
from dataclasses import astuple
from fractions import Fraction
from math import fsum, inf, isnan, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serq.results import statistics
from serq.results.engines import Latency
from serq.results.many_samples import ManySamples
from serq.results.statistics import InMemory, in_memory, summarize_samples

ODD = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 2.5, 5e-324, 2.0**-1022, 1e16, 2.0**899, 2.0**900, 1e308, -1e308, inf, -inf, nan]
)
ANY = st.lists(st.one_of(st.floats(width=64), ODD), max_size=120)
FEW_VALUES = st.lists(st.sampled_from([0.0, -0.0, 1.0, 3.0, nan]), min_size=40, max_size=200)
ORDINARY = st.lists(st.floats(1e-9, 1e9), min_size=40, max_size=200)
SERIES = st.one_of(ANY, FEW_VALUES, ORDINARY)


def bits(numbers: Sequence[float]) -> list[bytes]:
    """Every NaN is the same; zeros differ by their sign."""
    return [b"nan" if isnan(number) else struct.pack("<d", number) for number in numbers]


@settings(max_examples=400, deadline=None)
@given(SERIES)
def test_summaries(values: list[float]) -> None:
    found, expected = summarize_samples(ManySamples.of(values)), summarize_samples(InMemory(values))
    assert bits(astuple(found)) == bits(astuple(expected))


@settings(max_examples=200, deadline=None)
@given(SERIES)
def test_latencies_leave_out_nan(values: list[float]) -> None:
    found = Latency.of_samples(ManySamples.of(values).numbers())
    numbers = [value for value in values if not isnan(value)]
    assert bits(astuple(found)) == bits(astuple(Latency.of_samples(InMemory(numbers))))


@settings(max_examples=200, deadline=None)
@given(SERIES)
def test_all_ranks_are_those_of_sorting(values: list[float]) -> None:
    ordered = sorted(values, key=lambda value: (isnan(value), 0.0 if isnan(value) else value))
    samples = ManySamples.of(array("d", values))
    assert bits(samples.at_ranks(range(len(values)))) == bits(ordered)
    assert bits([samples.at_ranks([rank])[0] for rank in range(len(values))]) == bits(ordered)
    assert samples.at_ranks([]) == []


@settings(max_examples=200, deadline=None)
@given(SERIES, st.one_of(st.floats(width=64), ODD))
def test_counts_are_those_of_comparing_one_by_one(values: list[float], at: float) -> None:
    size = len(values) // 20
    ends = [*range(0, 20 * size + 1, size)] if size else [0] * 21
    parts = [values[start:stop] for start, stop in zip(ends, [*ends[1:], len(values)], strict=True)]
    assert ManySamples.of(values).counts_up_to(at) == [sum(value <= at for value in part) for part in parts]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.floats(-(2.0**899), 2.0**899), max_size=60))
def test_sums_are_rounded_once(values: list[float]) -> None:
    """From the definition: the float nearest to the sum of the numbers as fractions."""
    assert ManySamples.of(values).total() == float(sum(map(Fraction, values)))


@pytest.mark.parametrize("count", [2**15 - 1, 2**15, 2**15 + 1, 3 * 2**15 + 7])
def test_sums_of_several_blocks(count: int) -> None:
    draw = random.Random(count)
    values = [draw.uniform(-1, 1) * 2.0 ** draw.randint(-80, 80) for _ in range(count)]
    assert ManySamples.of(values).total() == fsum(values)
    for same in (0.1, 2.0**899, 5e-324, 1.0 - 2.0**-53):
        assert ManySamples.of([same] * count).total() == fsum([same] * count)
    assert ManySamples.of([1e308] * count).total() == inf


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=64), min_size=1, max_size=30))
def test_parts_are_slices(values: list[float]) -> None:
    samples, size = ManySamples.of(values), len(values)
    for start in range(size):
        assert bits(list(samples.part(start, size).part(0, 3))) == bits(values[start : start + 3])
        assert len(samples.part(start, size)) == size - start
    values[0] = 7.0
    assert bits(list(samples))[1:] == bits(values)[1:]


def test_numpy_is_asked_for_very_many_floats_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MANY", 40)
    assert isinstance(in_memory([1.0] * 40), ManySamples)
    assert isinstance(in_memory(array("d", [1.0] * 40)), ManySamples)
    assert isinstance(in_memory([1.0] * 39), InMemory)
    assert isinstance(in_memory([1.0] * 40 + [1]), InMemory)
    assert isinstance(in_memory(array("q", [1] * 40)), InMemory)
    assert Latency.of([2.0, nan] * 40).mean == 2.0


def test_fewer_samples_do_not_import_numpy() -> None:
    code = (
        "import sys; from array import array; from serq.results.statistics import MANY, summarize\n"
        "summarize(array('d', range(MANY - 1))); assert 'numpy' not in sys.modules\n"
        "summarize(array('d', range(MANY))); assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
