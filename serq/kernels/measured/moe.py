"""The time of the expert kernel by tokens and activated experts."""

from __future__ import annotations

from pathlib import Path

from serq.kernels.measured.curve import Curve, locate
from serq.kernels.measured.rows import read_number, read_rows

_COLUMNS = ("tokens", "activated_experts", "time_us")


class ExpertGrid:
    """Microseconds of the experts of one layer: a curve over activated experts for each token count."""

    def __init__(self, points: dict[float, dict[float, float]]) -> None:
        self._tokens = tuple(sorted(points))
        self._curves = tuple(Curve(points[tokens]) for tokens in self._tokens)

    @classmethod
    def read(cls, path: Path) -> ExpertGrid:
        """Read ``moe.csv``. Raises DataError with file and line."""
        points: dict[float, dict[float, float]] = {}
        for line, row in read_rows(path, _COLUMNS):
            tokens, experts, time = (
                read_number(path, line, column, text) for column, text in zip(_COLUMNS, row, strict=True)
            )
            points.setdefault(tokens, {})[experts] = time
        return cls(points)

    @property
    def tokens(self) -> tuple[float, ...]:
        """The measured token counts."""
        return self._tokens

    def at(self, tokens: float, experts: float) -> tuple[float, int]:
        """The time of ``tokens`` tokens that activate ``experts`` experts, and the grade of its evidence."""
        index, weight, grade = locate(self._tokens, tokens)
        low, seen = self._curves[index].at(experts)
        grade = max(grade, seen)
        if not weight:
            return low, grade
        high, seen = self._curves[index + 1].at(experts)
        return max(low + weight * (high - low), 0.0), max(grade, seen)
