"""Where the decode rows of an ordered batch end and its prefill rows begin (V-068)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class DecodePrefillSplit(NamedTuple):
    """Rows and tokens on either side of the boundary."""

    num_decodes: int
    num_prefills: int
    num_decode_tokens: int
    num_prefill_tokens: int


def split_decodes_and_prefills(
    query_lens: Sequence[int],
    *,
    decode_threshold: int = 1,
    num_tokens: int | None = None,
    max_query_len: int | None = None,
    require_uniform: bool = False,
    prefilling: Sequence[bool] | None = None,
) -> DecodePrefillSplit:
    """The boundary of a batch whose decode rows come first (V-068).

    Every row behind the first prefill row counts as a prefill, however short. ``prefilling`` marks rows that
    are still in their prompt: given, a short row of a prompt is a prefill too; None counts short extends as
    decodes (always so on a decode node with the recompute scheduler). ``require_uniform`` makes every row
    whose length differs from the first one a prefill. ``num_tokens`` and ``max_query_len`` are fields of the
    step's metadata; they default to the sum and the maximum of ``query_lens``.
    """
    rows = len(query_lens)
    tokens = sum(query_lens) if num_tokens is None else num_tokens
    longest = max(query_lens, default=0) if max_query_len is None else max_query_len
    if rows == 0:
        return DecodePrefillSplit(0, 0, 0, 0)
    if longest <= decode_threshold and prefilling is None and (not require_uniform or decode_threshold <= 1):
        return DecodePrefillSplit(rows, 0, tokens, 0)
    if query_lens[0] > decode_threshold:
        return DecodePrefillSplit(0, rows, 0, tokens)
    for row, length in enumerate(query_lens):
        beyond = length != query_lens[0] if require_uniform else length > decode_threshold
        if beyond or (prefilling is not None and prefilling[row]):
            decode_tokens = sum(query_lens[:row])
            return DecodePrefillSplit(row, rows - row, decode_tokens, tokens - decode_tokens)
    return DecodePrefillSplit(rows, 0, tokens, 0)
