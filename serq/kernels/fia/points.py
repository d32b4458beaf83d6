"""The measured points: mixed steps of one prefill and 23 decodes, in one call and in two.

Origin: the table of an SGLang pull request on splitting mixed attention on Ascend 950 (as printed there: one
rank, tensor parallelism simulated by dividing heads; every request at 8192 keys; block 128; medians of 200
timed iterations behind 10; milliseconds of one layer). Its author says that it must be measured again on the
final code; of the chip it names the family only. Repeats of a shape in it differ by up to 2.5 %.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from serq.kernels.registry import Origin

DECODERS: Final = 23
"""Decodes in every measured step."""

KEYS: Final = 8192
"""Keys of every request, its new tokens included."""

SOURCE: Final = "SGLang pull request on mixed attention of Ascend 950: 40 + 6 rows, medians of 200"
ORIGIN: Final = Origin("the points of ascend950.csv", "Ascend 950, which one is not said", "")


class Heads(NamedTuple):
    """Heads of one rank."""

    num_heads: int
    num_kv_heads: int
    head_dim: int


class Point(NamedTuple):
    """Seconds of the attention of one layer in a step with ``prefill_tokens``, in one call and in two.

    ``paired_gain`` is the printed gain of two calls, a share of one call: the median of paired runs, which is
    not quite the ratio of the two printed medians.
    """

    prefill_tokens: int
    tensor_parallel_size: int
    heads: Heads
    mixed: float
    split: float
    paired_gain: float


@cache
def points() -> tuple[Point, ...]:
    """All 46 rows, in the order in which they were printed."""
    text = files("serq.kernels.fia").joinpath("ascend950.csv").read_text("utf-8")
    return tuple(_point(row) for row in csv.DictReader(text.splitlines()))


def _point(row: dict[str, str]) -> Point:
    heads = Heads(int(row["num_heads"]), int(row["num_kv_heads"]), int(row["head_dim"]))
    return Point(
        int(row["prefill_tokens"]),
        int(row["tensor_parallel_size"]),
        heads,
        float(row["mixed_ms"]) / 1e3,
        float(row["split_ms"]) / 1e3,
        float(row["paired_gain_percent"]) / 100,
    )


@cache
def measured(prefill_tokens: int, heads: Heads, tensor_parallel_size: int) -> Point | None:
    """The row of a shape: that of the same tensor parallelism, else the mean of its repeats; None: none.

    The span rows repeat one row of the main table (3968 tokens, 24/4x256), which comes first and counts.
    """
    found = [point for point in points() if (point.prefill_tokens, point.heads) == (prefill_tokens, heads)]
    for point in found:
        if point.tensor_parallel_size == tensor_parallel_size:
            return point
    if not found:
        return None
    return mean_of(found)._replace(tensor_parallel_size=tensor_parallel_size)


def mean_of(repeats: Sequence[Point]) -> Point:
    """The mean of rows of one shape, at the ranks of the first."""
    figures = zip(*(point[3:] for point in repeats), strict=True)
    mixed, split, gain = (sum(column) / len(repeats) for column in figures)
    return repeats[0]._replace(mixed=mixed, split=split, paired_gain=gain)
