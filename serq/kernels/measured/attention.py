"""The time of the attention kernel over a measured grid of mixed batches.

A grid point is ONE prefill of ``prefill_chunk`` new tokens on ``kv_prefill`` old ones, together with
``n_decode`` decodes of ``kv_decode`` tokens each. A mixed batch is another kernel regime than its two parts
(128 decodes cost two or three times as much beside one prefill), so the look-up never goes from a batch with
a prefill to one without.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from serq.errors import DataError
from serq.kernels.executor import OutsideRange
from serq.kernels.measured.curve import EXTRAPOLATED, MEASURED, Curve, Spot, locate, outside
from serq.kernels.measured.rows import read_number, read_rows

_COLUMNS = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")

_Pair = tuple[float, float]
_Points = dict[float, dict[float, float]]


class _Plane:
    """What was measured for one (prefill_chunk, n_decode): a curve over kv_decode for each kv_prefill."""

    __slots__ = ("_curves", "histories")

    def __init__(self, points: _Points) -> None:
        self.histories = tuple(sorted(points))
        self._curves = tuple(Curve(points[history]) for history in self.histories)

    @property
    def contexts(self) -> tuple[float, float]:
        """The smallest and the largest kv_decode that all curves reach."""
        axes = [curve.axis for curve in self._curves]
        return max(axis[0] for axis in axes), min(axis[-1] for axis in axes)

    def at(self, history: float, context: float) -> tuple[float, int]:
        index, weight, grade = locate(self.histories, history)
        low, seen = self._curves[index].at(context)
        grade = max(grade, seen)
        if not weight:
            return low, grade
        high, seen = self._curves[index + 1].at(context)
        return max(low + weight * (high - low), 0.0), max(grade, seen)


class AttentionGrid:
    """Microseconds of one attention call of one layer, linear on all four axes."""

    def __init__(self, points: dict[_Pair, _Points]) -> None:
        self._planes = {pair: _Plane(plane) for pair, plane in points.items()}
        self._nearest: dict[_Pair, _Plane] = {}
        self._chunks = tuple(sorted({chunk for chunk, _ in points if chunk}))
        self._decoders = tuple(sorted({decoders for _, decoders in points if decoders}))

    @classmethod
    def read(cls, path: Path) -> AttentionGrid:
        """Read ``attention.csv``.

        Raises DataError, with the line where there is one, for a row that is no measurement, a point that
        stands twice, and a grid without decodes alone, prefills alone, or both together.
        """
        points: dict[_Pair, _Points] = {}
        for line, row in read_rows(path, _COLUMNS):
            chunk, history, decoders, context, time = (
                read_number(path, line, column, text) for column, text in zip(_COLUMNS, row, strict=True)
            )
            curve = points.setdefault((chunk, decoders), {}).setdefault(history, {})
            if context in curve:
                raise DataError(f"{path}:{line}: this point was measured in a row before")
            if not chunk and not decoders:
                raise DataError(f"{path}:{line}: neither a prefill nor a decode")
            curve[context] = time
        kinds = {(chunk > 0, decoders > 0) for chunk, decoders in points}
        for kind, what in {
            (False, True): "decodes alone (prefill_chunk 0)",
            (True, False): "a prefill alone (n_decode 0)",
            (True, True): "a prefill with decodes",
        }.items():
            if kind not in kinds:
                raise DataError(f"{path}: no row of {what}; a mixed step cannot be priced from its parts")
        return cls(points)

    def at(self, chunk: float, history: float, decoders: int, context: float) -> tuple[float, int]:
        """The time of a batch: a prefill of ``chunk`` tokens on ``history``, ``decoders`` on ``context``.

        A pair (prefill_chunk, n_decode) that was not measured stands for the nearest one that was.
        """
        over_chunks = locate(self._chunks, chunk) if chunk else None
        over_decoders = locate(self._decoders, decoders) if decoders else None
        grade = MEASURED
        for spot in (over_chunks, over_decoders):
            if spot is not None:
                grade = max(grade, spot.grade)
        time = 0.0
        for chunk_point, share in _corners(self._chunks, over_chunks):
            for decoders_point, part in _corners(self._decoders, over_decoders):
                pair = chunk_point, decoders_point
                plane = self._planes.get(pair)
                if plane is None:
                    plane = self._nearest_plane(pair)
                    grade = EXTRAPOLATED
                value, seen = plane.at(history, context)
                time += share * part * value
                grade = max(grade, seen)
        return max(time, 0.0), grade

    def outside(
        self, chunk: float, history: float, decoders: int, context: float
    ) -> tuple[OutsideRange, ...]:
        """On which dimensions a batch lies outside what was measured, its kind of batch taken for itself."""
        kind = [
            pair for pair in self._planes if bool(pair[0]) == bool(chunk) and bool(pair[1]) == bool(decoders)
        ]
        found: tuple[OutsideRange, ...] = ()
        if chunk:
            found += outside("prefilled", sorted({pair[0] for pair in kind}), chunk)
        if decoders:
            found += outside("decoders", sorted({pair[1] for pair in kind}), decoders)
        plane = self._nearest_plane((chunk, float(decoders)))
        if chunk:
            found += outside("context_prefill", plane.histories, history)
        if decoders:
            found += outside("mean_context_decode", plane.contexts, context)
        return found

    def _nearest_plane(self, pair: _Pair) -> _Plane:
        """The plane of the nearest pair with as much of a prefill, or none, and decodes, or none.

        The nearest number of decodes at the same chunk, if there is one: that is the axis the grid ends on.
        """
        plane = self._nearest.get(pair)
        if plane is None:
            chunk, decoders = pair
            alike = [
                other
                for other in self._planes
                if bool(other[0]) == bool(chunk) and bool(other[1]) == bool(decoders)
            ]
            nearest = min(alike, key=lambda other: (abs(other[0] - chunk), abs(other[1] - decoders), other))
            plane = self._nearest[pair] = self._planes[nearest]
        return plane


def _corners(axis: tuple[float, ...], spot: Spot | None) -> Iterator[tuple[float, float]]:
    """The points around a spot and their shares; 0 where the batch has nothing on this axis."""
    if spot is None:
        yield 0.0, 1.0
        return
    yield axis[spot.point], 1.0 - spot.weight
    if spot.weight:
        yield axis[spot.point + 1], spot.weight
