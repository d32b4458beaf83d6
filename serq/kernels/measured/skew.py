"""What decodes of unequal length cost more than their mean says.

``t = t(mean) + alpha * max(0, t(longest) - t(mean))``. Alpha was fitted for buckets of step shapes; it may be
negative or above 1. Bins are closed on the right. A step whose bucket was not fitted takes the default of its
tensor-parallel degree: a mixed step nearly always, since its prefill length must equal a measured one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from serq.errors import DataError
from serq.kernels.measured.rows import read_number, read_rows

_COLUMNS = ("pc", "n_label", "skew_rate_label", "kv_big_label", "kp_label", "alpha")

_Bucket = tuple[float, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Bins:
    """Intervals of one quantity, each closed on the right, and their labels."""

    edges: tuple[float, ...]
    labels: tuple[str, ...]

    def place(self, value: float) -> int:
        """Which interval holds ``value``; -1 or the number of intervals where none does."""
        return bisect_left(self.edges, value) - 1


@dataclass(frozen=True, slots=True)
class SkewBins:
    """The axes of the buckets: decodes, rate, longest decode, old prefill tokens.

    The rate is (mean - shortest) / (longest - shortest).
    """

    decoders: Bins
    rate: Bins
    longest: Bins
    history: Bins

    @property
    def axes(self) -> tuple[Bins, Bins, Bins, Bins]:
        """All four, in the order of the columns."""
        return self.decoders, self.rate, self.longest, self.history


class SkewFit:
    """The alpha of a step."""

    def __init__(self, bins: SkewBins, alphas: dict[_Bucket, float], default: float) -> None:
        self._bins = bins
        self._alphas = alphas
        self._default = default

    @classmethod
    def read(cls, path: Path, bins: SkewBins, default: float) -> SkewFit:
        """Read ``skew_fit.csv``. Raises DataError, with file and line, for a label without a bin."""
        alphas: dict[_Bucket, float] = {}
        indices = [{label: index for index, label in enumerate(axis.labels)} for axis in bins.axes]
        for line, (chunk, *labels, alpha) in read_rows(path, _COLUMNS):
            for column, label, index in zip(_COLUMNS[1:5], labels, indices, strict=True):
                if label not in index:
                    raise DataError(f"{path}:{line}: {column} {label!r} is no label of meta.yaml")
            decoders, rate, longest, history = (
                index[label] for label, index in zip(labels, indices, strict=True)
            )
            bucket = read_number(path, line, "pc", chunk), decoders, rate, longest, history
            alphas[bucket] = read_number(path, line, "alpha", alpha, negative=True)
        return cls(bins, alphas, default)

    def alpha(
        self, chunk: float, history: float, decoders: int, mean: float, extremes: Sequence[float]
    ) -> float:
        """Alpha of a step whose decodes have contexts between ``extremes``, which differ, around ``mean``."""
        shortest, longest = extremes
        bins = self._bins
        bucket = (
            chunk,
            bins.decoders.place(decoders),
            bins.rate.place((mean - shortest) / (longest - shortest)),
            bins.longest.place(longest),
            bins.history.place(history),
        )
        return self._alphas.get(bucket, self._default)
