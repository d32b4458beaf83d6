"""A model of the measured points, for the steps between and beside them.

    prefill = pairs * 4 * heads * dim / rate(dim) * waste
    decode  = max(KV bytes / bandwidth, head * keys * heads)
    seconds = fixed + prefill + decode

``waste`` is that of tiles of 128 queries a head on 32 cores; ``head`` is seconds a query head and key,
more in a call with prefills.

Eight figures, fitted by least squares of relative errors to all 46 rows, both columns at once. Left out and
predicted one shape at a time it errs by 3.3 % (two calls) and 2.8 % (one call) on average, 13.7 % at worst
(tests/kernels/fia). What a second call costs, how decodes scale with their number and length, and any other
head dimension cannot be told from these rows (facts: section 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from serq.kernels.fia.points import DECODERS, KEYS, Heads
from serq.kernels.work import Part, Work

CORES: Final = 32
TILE: Final = 128
BYTES: Final = 2
"""Bytes of an element of the measured KV cache (bf16)."""


@dataclass(frozen=True, slots=True)
class AttentionModel:
    """Figures of the model, in seconds, operations and bytes; maps are by head dimension."""

    fixed: float
    rate: Mapping[int, float]
    bandwidth: float
    decode_head: Mapping[int, float]
    mixed_decode_head: Mapping[int, float]

    def seconds(self, work: Work, heads: Heads, split: bool) -> float:
        """The attention of one layer."""
        head = self.decode_head if split or not work.mixed else self.mixed_decode_head
        return self.fixed + self._prefill(work.prefills, heads) + self._decode(work.decodes, heads, head)

    def _prefill(self, part: Part, heads: Heads) -> float:
        if not part.tokens:
            return 0.0
        tiles = heads.num_heads * ceil(part.tokens / TILE)
        waste = ceil(tiles / CORES) * CORES / tiles
        operations = 4.0 * heads.num_heads * heads.head_dim * part.pairs
        return operations / self.rate[heads.head_dim] * waste

    def _decode(self, part: Part, heads: Heads, head: Mapping[int, float]) -> float:
        moved = 2.0 * heads.num_kv_heads * heads.head_dim * BYTES * part.keys
        return max(moved / self.bandwidth, head[heads.head_dim] * heads.num_heads * part.keys)


_MEASURED_KEYS: Final = DECODERS * KEYS

FITTED: Final = AttentionModel(
    fixed=0.1138924e-3,
    rate={256: 261.0162e12, 128: 387.6582e12},
    bandwidth=1166.5528e9,
    decode_head={256: 0.01490976e-3 / _MEASURED_KEYS, 128: 0.01361605e-3 / _MEASURED_KEYS},
    mixed_decode_head={256: 0.05130829e-3 / _MEASURED_KEYS, 128: 0.03008240e-3 / _MEASURED_KEYS},
)
"""Fitted to the 46 rows; a test fits them again."""
