"""One attention call for a mixed step, or two: the measured rows of Ascend 950 (docs/split-study.md).

A *gate* decides it for a deployment. Its *regret* is the time that it loses against an oracle, which takes
the cheaper form of every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, sqrt
from typing import Final, NamedTuple

from serq.kernels.catalogue.models import ModelShape, models
from serq.kernels.fia.model import FITTED
from serq.kernels.fia.points import DECODERS, KEYS, Heads, Point, mean_of, measured, points
from serq.kernels.roofline.shard import Shard
from serq.kernels.work import NOTHING, Part, Work
from serq.studies.replications import student_975

MAIN_PREFILL: Final = 3968
"""Prefill tokens of the table by shape; the other rows vary them for one shape."""

RESOLUTION: Final = 0.03
"""Gains of less cannot be told from none: what the fitted model errs by, and more than repeats differ by."""

RANKS: Final = (1, 2, 4, 8)
MODELS: Final = (
    *(f"Qwen3-{size}" for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B")),
    *(f"Qwen3.5-{size}" for size in ("0.8B", "2B", "4B", "9B", "27B", "35B-A3B", "122B-A10B", "397B-A17B")),
)
"""The models of the measured table."""


class Gate(NamedTuple):
    """A rule that says of a measured row whether its mixed step is split into two calls."""

    name: str
    splits: Callable[[Point], bool]


def _heads_for_256(least: int) -> Callable[[Point], bool]:
    return lambda row: row.heads.head_dim < 256 or row.heads.num_heads >= least


def _by_model(row: Point) -> bool:
    one, two = (FITTED.seconds(measured_work(row), row.heads, split) for split in (False, True))
    return two < one


GATES: Final = (
    Gate("never", lambda row: False),
    Gate("always", lambda row: True),
    Gate("4 heads or more at 256", _heads_for_256(4)),
    Gate("5 heads or more at 256", _heads_for_256(5)),
    Gate("4 heads or more", lambda row: row.heads.num_heads >= 4),
    Gate("the fitted model", _by_model),
)
"""Gates worth a comparison; the oracle (`auto` at a measured row) has no regret by definition."""


def table() -> tuple[Point, ...]:
    """The 40 rows of ranks and shapes at one prefill length."""
    return points()[:40]


def span() -> tuple[Point, ...]:
    """The 6 rows of one shape at several prefill lengths."""
    return points()[40:]


@cache
def shapes() -> tuple[Point, ...]:
    """One row a distinct shape of :func:`table`: repeats at several ranks are one shape, and are averaged."""
    repeats: dict[Heads, list[Point]] = {}
    for row in table():
        repeats.setdefault(row.heads, []).append(row)
    return tuple(map(mean_of, repeats.values()))


def repeat_spread() -> float:
    """The relative standard deviation of times of one shape that was measured again, both forms pooled."""
    squares, degrees = 0.0, 0
    repeats: dict[Heads, list[Point]] = {}
    for row in table():
        repeats.setdefault(row.heads, []).append(row)
    for rows in repeats.values():
        for times in ([row.mixed for row in rows], [row.split for row in rows]):
            mean = sum(times) / len(times)
            squares += sum((time / mean - 1.0) ** 2 for time in times)
            degrees += len(times) - 1
    return sqrt(squares / degrees)


def gain(row: Point) -> float:
    """The share of one call's printed time that two calls save."""
    return 1.0 - row.split / row.mixed


# --- is the gain above 5 %? ---------------------------------------------------------------------------------


class SignedRank(NamedTuple):
    """Wilcoxon's one-sided signed-rank test: the sum of the ranks above the centre, and its probability."""

    statistic: float
    probability: float
    above: int
    size: int


def signed_rank(values: Sequence[float], centre: float) -> SignedRank:
    """Whether ``values`` lie above ``centre``, exactly: all signs of the ranks are equally likely otherwise.

    Equal distances share their mean rank; a value at the centre is left out (Wilcoxon 1945).
    """
    distances = [round(value - centre, 12) for value in values if round(value - centre, 12)]
    by_size = sorted(map(abs, distances))
    # twice the mean rank of equal ones, so that it is a whole number
    rank = {size: 2 * by_size.index(size) + by_size.count(size) + 1 for size in by_size}
    ranks = [rank[abs(distance)] for distance in distances]
    found = sum(rank[distance] for distance in distances if distance > 0)
    ways = [1] + [0] * sum(ranks)
    for step in ranks:
        for total in range(len(ways) - 1, step - 1, -1):
            ways[total] += ways[total - step]
    probability = sum(ways[found:]) / 2 ** len(ranks)
    return SignedRank(found / 2, probability, sum(d > 0 for d in distances), len(distances))


# --- the single call's penalty over the prefill span --------------------------------------------------------


class Line(NamedTuple):
    """``intercept + slope * area``: seconds of a layer over millions of (query, key) pairs."""

    intercept: float
    slope: float


def over_area(form: Callable[[Point], float]) -> Line:
    """Least squares of the span rows over the pairs of a causal prefill at the end of 8192 keys."""
    x = [measured_work(row).prefills.pairs / 1e6 for row in span()]
    y = [form(row) for row in span()]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    slope /= sum((a - mean_x) ** 2 for a in x)
    return Line(mean_y - slope * mean_x, slope)


def measured_work(row: Point) -> Work:
    """The step of a row: one prefill and 23 decodes, all at 8192 keys."""
    return mixed_work(DECODERS, row.prefill_tokens, KEYS - row.prefill_tokens)


def mixed_work(decoders: int, new: int, computed: int) -> Work:
    """A step of decodes at 8192 keys and of ``new`` tokens of a prompt behind ``computed`` ones."""
    pairs = new * computed + new * (new + 1) // 2
    decodes = Part(decoders, decoders, decoders * KEYS, decoders * KEYS, KEYS)
    return Work(decoders + new, decodes, Part(1, new, pairs, computed + new, computed + new))


def fitted_gain(work: Work, heads: Heads) -> float:
    """The share of one call that two save, by the fitted model."""
    one, two = (FITTED.seconds(work, heads, split) for split in (False, True))
    return 1.0 - two / one


def decode_keys_that_pay(heads: Heads, second_call: float) -> int | None:
    """The least keys of all decodes for which two calls are cheaper, if the second costs so many seconds.

    By the fitted model, far outside what was measured; None: never.
    """

    def saves(keys: int) -> float:
        step = Work(1, Part(1, 1, keys, keys, keys), NOTHING._replace(rows=1, tokens=1))
        return FITTED.seconds(step, heads, False) - FITTED.seconds(step, heads, True) - second_call

    low, high = 0, 2**30
    if saves(high) <= 0.0:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if saves(middle) > 0.0 else (middle, high)
    return high


# --- deployments and gates ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model shared by ranks, and the measured row of its shape."""

    model: ModelShape
    tensor_parallel_size: int
    row: Point

    @property
    def name(self) -> str:
        """The model and its ranks."""
        return f"{self.model.name} TP {self.tensor_parallel_size}"

    @property
    def saving(self) -> float:
        """Seconds that two calls save in a mixed step, all full-attention layers together."""
        return self.model.full_attention_layers * (self.row.mixed - self.row.split)

    def regret(self, gate: Gate) -> float:
        """Seconds that a gate loses in a mixed step."""
        return abs(self.saving) if gate.splits(self.row) != (self.saving > 0.0) else 0.0

    def relative_regret(self, gate: Gate) -> float:
        """The same as a share of the better form of attention."""
        best = min(self.row.mixed, self.row.split) * self.model.full_attention_layers
        return self.regret(gate) / best


@cache
def deployments() -> tuple[Deployment, ...]:
    """Every model of the table on 1, 2, 4 and 8 ranks."""
    return tuple(_deployment(models()[name], ranks) for name in MODELS for ranks in RANKS)


def _deployment(model: ModelShape, ranks: int) -> Deployment:
    shard = Shard(model, ranks)
    heads = Heads(shard.num_heads, shard.num_kv_heads, model.head_dim)
    row = measured(MAIN_PREFILL, heads, ranks)
    assert row is not None  # the table has a row for each of them
    return Deployment(model, ranks, row)


# --- what it takes to see it in serving ---------------------------------------------------------------------


def amdahl(share: float, saved: float) -> float:
    """The gain in throughput if ``saved`` of a part that takes ``share`` of the time is gone."""
    return 1.0 / (1.0 - share * saved) - 1.0


def runs_to_see(effect: float, deviation: float) -> int:
    """Unpaired runs a side after which ``effect`` is seen four times in five, at 95 % confidence.

    ``deviation`` is the standard deviation of one run. Student's quantiles, found by iteration.
    """
    normal_80 = 0.841621
    runs = 2
    while True:
        needed = 2.0 * ((student_975(2 * runs - 2) + normal_80) * deviation / effect) ** 2
        if runs >= needed:
            return runs
        runs = max(runs + 1, min(ceil(needed), 2 * runs))


RANGE_OF_THREE: Final = 1.692569
"""Mean range of three normal samples, in standard deviations (Tippett 1925)."""
