"""States, splits and boundaries of single steps, with values worked out from the rules (V-065 to V-078)."""

import pytest

from serq.kernels.ascend.attention_state import AttentionState, batch_state
from serq.kernels.ascend.graph_mode import GraphMode
from serq.kernels.ascend.metadata import build_metadata, decode_threshold, start_locations
from serq.kernels.ascend.padding import PaddingError, pad_for_sequence_parallelism, pad_query_start_loc
from serq.kernels.ascend.split import split_decodes_and_prefills


def state(computed: list[int], scheduled: list[int], **options: object) -> AttentionState:
    return batch_state(computed, scheduled, [0] * len(computed), **options).attention  # type: ignore[arg-type]


def test_row_lengths_not_phases_decide_the_state() -> None:
    assert state([7, 30], [1, 1]) is AttentionState.DECODE_ONLY  # even where 7 of 8 prompt tokens are cached
    assert state([0, 0], [1, 1]) is AttentionState.PREFILL_NO_CACHE
    assert state([0, 5], [9, 9]) is AttentionState.CHUNKED_PREFILL
    assert state([100] * 40 + [0], [1] * 40 + [900]) is AttentionState.CHUNKED_PREFILL
    assert state([16, 5], [9, 9], chunked_prefill=False) is AttentionState.PREFILL_CACHE_HIT


def test_speculation_other_than_mtp_is_stored_as_chunked_prefill_yet_counts_as_decoding() -> None:
    eagle = batch_state([8, 9], [3, 3], [2, 2], speculative_method="eagle")
    assert eagle.attention is AttentionState.CHUNKED_PREFILL
    assert not eagle.with_prefill
    mtp = batch_state([8, 9], [2, 2], [1, 1], speculative_method="mtp")
    assert mtp.attention is AttentionState.SPEC_DECODING
    assert batch_state([8, 9], [3, 3], [2, 2]).with_prefill  # drafts without a speculative method


def test_labels_are_upstreams_names() -> None:
    assert [state.label for state in AttentionState] == [
        "PrefillNoCache",
        "PrefillCacheHit",
        "DecodeOnly",
        "ChunkedPrefill",
        "SpecDecoding",
    ]
    with pytest.raises(ValueError, match="Decode"):
        AttentionState.of_label("Decode")


def test_everything_behind_the_first_long_row_is_a_prefill() -> None:
    assert split_decodes_and_prefills([1, 1, 8, 1]) == (2, 2, 2, 9)
    assert split_decodes_and_prefills([8, 1, 1]) == (0, 3, 0, 10)
    assert split_decodes_and_prefills([]) == (0, 0, 0, 0)
    assert split_decodes_and_prefills([3, 2, 3], decode_threshold=3) == (3, 0, 8, 0)
    assert split_decodes_and_prefills([3, 3, 2, 3], decode_threshold=3, require_uniform=True) == (2, 2, 6, 5)


def test_short_rows_of_a_prompt_count_as_prefills_when_asked() -> None:
    assert split_decodes_and_prefills([1, 1, 1], prefilling=[False, True, False]) == (1, 2, 1, 2)


def test_tokens_are_rounded_up_for_sequence_parallelism_only_when_it_is_on() -> None:
    assert pad_for_sequence_parallelism(9, 4, True) == 12
    assert pad_for_sequence_parallelism(8, 4, True) == 8
    assert pad_for_sequence_parallelism(9, 4, False) == 9


def padded(query_lens: list[int], tokens: int, rows: int | None, **modes: GraphMode) -> tuple[int, ...]:
    return pad_query_start_loc(
        start_locations(query_lens),
        num_tokens_padded=tokens,
        num_reqs_padded=len(query_lens),
        uniform_query_len=1,
        configured_mode=modes.get("configured", GraphMode.FULL_AND_PIECEWISE),
        runtime_mode=modes.get("runtime", GraphMode.FULL),
        descriptor_num_reqs=rows,
    )


def test_a_uniform_batch_is_padded_row_by_row_and_a_mixed_one_by_one_dummy() -> None:
    assert padded([1, 1, 1], 8, 8) == (0, 1, 2, 3, 4, 5, 6, 7, 8)
    assert padded([1, 5], 8, None) == (0, 1, 6, 8)
    assert padded([1, 7], 8, None) == (0, 1, 8)
    with pytest.raises(PaddingError, match="2 requests"):
        padded([1, 5], 8, 4, runtime=GraphMode.PIECEWISE)


def test_dummy_rows_have_length_one_and_write_no_slot() -> None:
    metadata = build_metadata((0, 1, 2, 3, 4), [40, 7], AttentionState.DECODE_ONLY, num_actual_tokens=2)
    assert metadata.seq_lens == (40, 7, 1, 1)
    assert metadata.block_table_shape[0] == 4
    assert metadata.slots.shape == (2,)
    assert (metadata.num_decodes, metadata.num_prefills) == (4, 0)


def test_the_attention_operator_takes_at_most_sixteen_tokens_a_decode() -> None:
    assert decode_threshold(15) == 16
    with pytest.raises(ValueError, match="at most 16"):
        decode_threshold(16)
