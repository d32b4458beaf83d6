"""How large a prefill chunk may be so that it takes as long as a whole first chunk (V-060 to V-063)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST_PROFILE_POINTS = 8
FEWEST_HISTORY_POINTS = 5
PROFILE_STEPS = 64
SMALLEST_ALIGNMENT = 64
LARGEST = 1e100
"""Features and times from here on are not fitted."""


@dataclass(frozen=True, slots=True)
class Quadratic:
    """Coefficients of a fitted time in milliseconds: ``a`` per squared token, ``b`` per token, ``c``."""

    a: float = 0.0
    b: float = 0.0
    c: float = 0.0


@dataclass(frozen=True, slots=True)
class ProfilingChunkConfig:
    """The options of ``profiling_chunk_config`` that shape a chunk (V-060).

    Chunks are at least ``min_chunk`` tokens; ``smooth_factor`` 1 follows the prediction, 0 keeps the base
    size; steps with history are recorded until there are more than ``max_fit_chunk`` of them.
    """

    smooth_factor: float = 1.0
    min_chunk: int = 4096
    max_fit_chunk: int = 30


def profile_lengths(base_chunk_size: int) -> list[int]:
    """The chunk lengths that are timed at start, longest first (V-061)."""
    return [int(base_chunk_size - step * base_chunk_size / PROFILE_STEPS) for step in range(PROFILE_STEPS)]


class ChunkPredictor:
    """Predicts times and chunk sizes of prefills.

    At first from the profile, a quadratic f of the sequence length: a chunk of x tokens behind L takes
    f(L + x) - f(L). Once enough steps with history were recorded, from a fit of those: a chunk of C tokens
    behind H takes a C (C + H) + b (C + H) + c.
    """

    def __init__(self, base_chunk_size: int, page_size: int, config: ProfilingChunkConfig) -> None:
        self.base_chunk_size = base_chunk_size
        self._alignment = max(page_size, SMALLEST_ALIGNMENT)
        self._config = config
        self.profile = Quadratic()
        self.history = Quadratic()
        self.target_ms: float | None = None
        self._steps: list[tuple[tuple[float, float, float], float]] = []

    @property
    def uses_history(self) -> bool:
        """Whether the fit of recorded steps is in use."""
        return len(self._steps) >= FEWEST_HISTORY_POINTS

    @property
    def history_complete(self) -> bool:
        """Whether no further step is recorded."""
        return len(self._steps) > self._config.max_fit_chunk

    def fit(self, lengths: Sequence[int], milliseconds: Sequence[float]) -> bool:
        """Fit the profile and set the target to the time of a first chunk of the base size (V-061).

        False, with nothing changed, when there are too few points, or numbers too large to be fitted.
        """
        if len(lengths) < FEWEST_PROFILE_POINTS:
            return False
        rows = [(float(length) * length, float(length), 1.0) for length in lengths]
        profile = _least_squares(rows, milliseconds)
        if profile is None:
            return False
        self.profile = profile
        first = self._profiled(self.base_chunk_size) - self._profiled(0)
        self.target_ms = first if first > 0 else 1.0
        return True

    def set_target(self, milliseconds: float) -> None:
        """Set the time that a chunk should take."""
        self.target_ms = milliseconds

    def record(self, chunks: Sequence[tuple[int, int]], seconds: float) -> None:
        """Take in one step's time and its prefill chunks, each (new tokens, computed tokens) (V-063)."""
        if self.history_complete:
            return
        spans = [(new, new + computed) for new, computed in chunks]
        products = sum(new * end for new, end in spans)
        features = (float(products), float(sum(end for _, end in spans)), float(len(spans)))
        self._steps.append((features, seconds * 1000))
        if self.uses_history:
            rows, times = zip(*self._steps, strict=True)
            self.history = _least_squares(rows, times) or self.history

    def predict_time(self, new: int, computed: int) -> float:
        """Milliseconds of a chunk of ``new`` tokens behind ``computed`` ones."""
        if self.uses_history:
            fit, end = self.history, new + computed
            return fit.a * new * end + fit.b * end + fit.c
        return self._profiled(new + computed) - self._profiled(computed)

    def predict_chunk_size(self, computed: int, target_ms: float | None = None) -> int | None:
        """Tokens of a chunk behind ``computed`` ones that takes ``target_ms``, by default the target (V-062).

        None when there is no prediction: nothing was fitted, or the fit has no positive solution.
        """
        target = target_ms or self.target_ms
        if target is None:
            return None
        size = self._solve(computed, target)
        if size is None:
            return None
        base, config = self.base_chunk_size, self._config
        tokens = max(int(base + config.smooth_factor * (size - base)), config.min_chunk)
        return -(-tokens // self._alignment) * self._alignment

    def _profiled(self, length: int) -> float:
        return self.profile.a * length * length + self.profile.b * length + self.profile.c

    def _solve(self, computed: int, target: float) -> float | None:
        """The chunk size whose predicted time is ``target``."""
        if self.uses_history:
            fit = self.history
            square, linear = fit.a, fit.a * computed + fit.b
            constant = fit.b * computed + fit.c - target
        else:
            fit = self.profile
            square, linear, constant = fit.a, 2 * fit.a * computed + fit.b, -target
        if square == 0:
            return None
        discriminant = linear * linear - 4 * square * constant
        if discriminant < 0:
            return None
        root = (-linear + math.sqrt(discriminant)) / (2 * square)
        return root if root > 0 else None


def _least_squares(rows: Sequence[tuple[float, float, float]], values: Sequence[float]) -> Quadratic | None:
    """The fit; None where a number is beyond ``LARGEST``, on which the solver may never end."""
    import numpy as np

    matrix, target = np.array(rows, float), np.array(values, float)
    if not (np.abs(matrix).max() < LARGEST and np.abs(target).max() < LARGEST):
        return None
    solution, *_ = np.linalg.lstsq(matrix, target, rcond=None)
    return Quadratic(*(float(value) for value in solution))
