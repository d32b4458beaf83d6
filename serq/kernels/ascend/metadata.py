"""What the attention backend is told about a batch: boundaries, lengths, slots, block-table rows (V-078)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from serq.kernels.ascend.attention_state import AttentionState
from serq.kernels.ascend.split import split_decodes_and_prefills
from serq.kernels.operator_call import TensorArgument

LONGEST_DECODE_QUERY = 16


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """One step's attention metadata.

    ``query_ends`` are cumulative query lengths without the leading 0 and include dummy rows; ``seq_lens`` are
    total lengths per row, computed and new, 1 for a dummy row. ``block_table_width`` is the number of columns
    of the block table; ``slot_mapping`` the cache slots of the actual tokens, where they are known.
    """

    state: AttentionState
    num_actual_tokens: int
    num_decodes: int
    num_prefills: int
    num_decode_tokens: int
    query_ends: tuple[int, ...]
    seq_lens: tuple[int, ...]
    max_query_len: int
    block_table_width: int
    slot_mapping: tuple[int, ...] | None = None
    causal: bool = True

    @property
    def num_reqs(self) -> int:
        """Rows, dummy rows included."""
        return len(self.query_ends)

    @property
    def block_table_shape(self) -> tuple[int, int]:
        """Rows (missing ones filled with block 0) and columns of the block table."""
        return (self.num_reqs, self.block_table_width)

    @property
    def slots(self) -> TensorArgument:
        """The slot mapping as an operator argument."""
        return TensorArgument((self.num_actual_tokens,), "int32", self.slot_mapping)


def decode_threshold(num_speculative_tokens: int) -> int:
    """The longest query that may count as a decode (V-069); ValueError beyond what the operator takes."""
    threshold = 1 + num_speculative_tokens
    if threshold > LONGEST_DECODE_QUERY:
        raise ValueError(
            f"{num_speculative_tokens} speculative tokens make decode queries of {threshold} tokens; "
            f"the TND attention operator takes at most {LONGEST_DECODE_QUERY}"
        )
    return threshold


def build_metadata(
    query_start_loc: Sequence[int],
    seq_lens: Sequence[int],
    state: AttentionState,
    *,
    threshold: int = 1,
    num_actual_tokens: int | None = None,
    max_query_len: int | None = None,
    block_table_width: int = 1,
    slot_mapping: tuple[int, ...] | None = None,
    causal: bool = True,
) -> AttentionMetadata:
    """The metadata of a batch whose boundaries ``query_start_loc`` may contain dummy rows (V-078).

    ``seq_lens`` holds the real rows; rows beyond them get length 1 and block 0, their outputs are cut and
    only ``num_actual_tokens`` slots are written. Decodes and prefills are counted on the padded rows.
    """
    query_lens = [end - start for start, end in pairwise(query_start_loc)]
    tokens = query_start_loc[-1] if num_actual_tokens is None else num_actual_tokens
    longest = max(query_lens, default=0) if max_query_len is None else max_query_len
    split = split_decodes_and_prefills(
        query_lens, decode_threshold=threshold, num_tokens=tokens, max_query_len=longest
    )
    missing = len(query_lens) - len(seq_lens)
    return AttentionMetadata(
        state=state,
        num_actual_tokens=tokens,
        num_decodes=split.num_decodes,
        num_prefills=split.num_prefills,
        num_decode_tokens=split.num_decode_tokens,
        query_ends=tuple(query_start_loc[1:]),
        seq_lens=(*seq_lens, *[1] * missing)[: len(query_lens)],
        max_query_len=longest,
        block_table_width=block_table_width,
        slot_mapping=None if slot_mapping is None else slot_mapping[:tokens],
        causal=causal,
    )


def start_locations(query_lens: Sequence[int]) -> tuple[int, ...]:
    """Query boundaries with the leading 0."""
    return tuple(accumulate(query_lens, initial=0))
