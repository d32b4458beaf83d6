"""The token counts that vLLM has captured graphs for: a step is padded up to one, or runs as it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

_LARGEST = 512


def default_capture_sizes(max_num_seqs: int, max_num_batched_tokens: int) -> tuple[int, ...]:
    """The sizes that vLLM 0.19 captures where nothing is configured: 1, 2, 4, by 8 to 256, then by 16.

    Up to twice ``max_num_seqs``, 512 and the token budget.
    """
    limit = min(2 * max_num_seqs, _LARGEST, max_num_batched_tokens)
    sizes = (1, 2, 4, *range(8, 256, 8), *range(256, limit + 1, 16))
    return tuple(size for size in sizes if size <= limit)


class CaptureSizes:
    """The captured token counts of an engine; none where it runs eagerly."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sorted(set(sizes)))

    def captured(self, tokens: int) -> bool:
        """Whether a step of ``tokens`` runs as a graph."""
        return bool(self._sizes) and tokens <= self._sizes[-1]

    def pad(self, tokens: int) -> int:
        """The tokens that are computed for a step of ``tokens``."""
        return self._sizes[bisect_left(self._sizes, tokens)] if self.captured(tokens) else tokens
