"""What each kind of KV cache group holds, frees, publishes and finds; tables worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from serq.runtime.vllm.config import EngineConfig, SpeculativeConfig
from serq.runtime.vllm.kv_cache_spec import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheGroup,
    KVCacheSpec,
    MambaMode,
    MambaSpec,
    SlidingWindowSpec,
)
from tests.runtime.vllm.harness import Harness


def engine(*specs: KVCacheSpec, **flags: Any) -> Harness:
    defaults = {"max_num_batched_tokens": 8, "max_num_seqs": 4, "max_model_len": 64, "num_gpu_blocks": 40}
    return Harness(**{**defaults, "groups": tuple(KVCacheGroup(spec) for spec in specs), **flags})


def computed(run: Harness, name: str, prompt: Any, steps: int = 1) -> None:
    run.add(name, prompt)
    run.steps(steps)


def test_a_window_frees_what_it_has_left_when_the_next_share_comes() -> None:
    """Window 6, blocks of 4: with 8 processed tokens 3 are skipped, with 16 processed 11: two blocks."""
    run = engine(SlidingWindowSpec(4, 6))
    run.add("A", 20)
    tables = []
    for _ in range(3):
        run.launch()
        tables.append(run.blocks("A"))
        run.finish()
    assert tables == [[1, 2], [1, 2, 3, 4], [0, 0, 3, 4, 5]]
    assert run.free[-2:] == [2, 1]


def test_with_steps_in_flight_a_window_stays_one_step_longer() -> None:
    """S-105: the second share is scheduled while the first is in flight, so nothing is processed yet."""
    run = engine(SlidingWindowSpec(4, 2), async_scheduling=True)
    run.add("A", 24)
    run.launch()
    run.launch()
    assert run.blocks("A") == [1, 2, 3, 4]
    run.finish()
    run.launch()
    assert run.blocks("A") == [0, 2, 3, 4, 5, 6]


def test_a_window_hit_needs_a_window_of_blocks() -> None:
    """Window 6 needs ceil(5 / 4) = 2 cached blocks in a row; what is left of them is null."""
    run = engine(SlidingWindowSpec(4, 6), max_num_batched_tokens=32)
    computed(run, "A", [("doc", 0, 24)])
    held = run.blocks("A")
    run.add("B", [("doc", 0, 17), ("B", 17, 3)])
    assert run.launch().hits == {"B": (16, 0)}
    assert run.blocks("B")[:4] == [0, 0, *held[2:4]]


def test_a_chunk_is_all_that_is_looked_for() -> None:
    """Chunk 8, blocks of 4: with 19 tokens the limit is 18, its chunk begins at 16; all before counts."""
    run = engine(ChunkedLocalAttentionSpec(4, 8), max_num_batched_tokens=32)
    run.add("A", 19)
    assert run.launch().hits == {"A": (16, 0)}
    assert run.blocks("A") == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("spec", "cap"),
    [
        (FullAttentionSpec(4), None),
        (SlidingWindowSpec(4, 6), 5),
        (ChunkedLocalAttentionSpec(4, 8), 4),
        (MambaSpec(4, "align"), None),
    ],
)
def test_admission_caps(spec: KVCacheSpec, cap: int | None) -> None:
    """S-089 with 8 tokens in flight: ceil((6 - 1 + 8) / 4) + 1 and ceil((8 + 8) / 4)."""
    assert spec.admission_cap(max_in_flight_tokens=8, max_model_len=64) == cap


def test_a_state_is_one_block_whatever_the_length() -> None:
    run = engine(MambaSpec(64, "none", 2), enable_prefix_caching=False, max_num_batched_tokens=32)
    computed(run, "A", 30)
    assert run.blocks("A") == [1, 2, 3]


def test_shares_stop_where_states_are_cached() -> None:
    """Blocks of 8, budget 16: 16, then the last boundary 24, then the rest (S-120, S-121)."""
    run = engine(FullAttentionSpec(8), MambaSpec(8, "align"), max_num_batched_tokens=16)
    run.add("A", 30)
    assert run.steps(4) == [{"A": 16}, {"A": 8}, {"A": 6}, {"A": 1}]


def test_a_share_below_a_block_is_no_share() -> None:
    run = engine(FullAttentionSpec(8), MambaSpec(8, "align"), max_num_batched_tokens=12)
    computed(run, "A", 5)
    run.add("B", 30)
    assert run.steps(2) == [{"A": 1, "B": 8}, {"A": 1, "B": 8}]
    run.add("C", 4)
    run.add("D", 30)
    assert run.step() == {"A": 1, "B": 8}


def test_two_states_live_during_a_transition() -> None:
    run = engine(FullAttentionSpec(8), MambaSpec(8, "align"), max_num_batched_tokens=16)
    run.add("A", 30)
    tables = []
    for _ in range(4):
        run.launch()
        tables.append([block != 0 for block in run.blocks("A", 1)])
        run.finish()
    assert tables == [
        [False, True],
        [False, True, True],
        [False, False, True, True],
        [False, False, False, True],
    ]


def test_a_state_of_this_step_cannot_be_hit_yet() -> None:
    """S-115: B waits a step, then hits the state after 8 tokens."""
    run = engine(FullAttentionSpec(8), MambaSpec(8, "align"), max_num_batched_tokens=32)
    run.add("A", [("doc", 0, 12)])
    run.add("B", [("doc", 0, 12)])
    assert run.step() == {"A": 8}
    step = run.launch()
    assert step.hits == {"B": (8, 0)}


def test_the_shortest_hit_holds_and_the_longest_is_a_junction() -> None:
    """Full attention has doc cached up to 24, but the only state is at 24: A's shares were 24 and 6."""
    run = engine(FullAttentionSpec(8), MambaSpec(8, "align"), max_num_batched_tokens=32)
    computed(run, "A", [("doc", 0, 30)], 2)
    request = run.add("B", [("doc", 0, 17), ("B", 17, 13)])
    step = run.launch()
    assert step.hits == {"B": (0, 0)}
    assert request.shared_prefix_boundary == 16
    assert step.scheduled["B"].num_tokens == 16


def test_hits_inside_a_block_are_copied() -> None:
    """Blocks of 16, match unit 4: a prompt of 14 tokens publishes its tail at 12 (S-126 to S-129)."""
    run = engine(
        FullAttentionSpec(16), MambaSpec(16, "align"), max_num_batched_tokens=32, prefix_match_unit=4
    )
    run.add("A", [("doc", 0, 14)])
    assert run.steps(2) == [{"A": 12}, {"A": 2}]
    run.add("B", [("doc", 0, 13), ("B", 13, 5)])
    step = run.launch()
    assert step.hits == {"B": (12, 0)}
    shared = run.blocks("A")[0]
    assert step.block_copies[0] == (shared, run.blocks("B")[0])
    assert run.blocks("B")[0] != shared


def test_eagle_computes_the_last_hit_block_again() -> None:
    run = engine(FullAttentionSpec(4), max_num_batched_tokens=32, speculative=SpeculativeConfig("eagle", 2))
    computed(run, "A", [("doc", 0, 16)])
    run.add("B", [("doc", 0, 16)])
    assert run.launch().hits == {"B": (8, 0)}


@pytest.mark.parametrize("mode", ["align", "all"])
def test_retention_keeps_states_of_segments_and_of_the_prompt(mode: MambaMode) -> None:
    """Interval 16, blocks of 4, prompt 27: states at 16 and at floor(26 / 4) * 4 = 24."""
    run = engine(FullAttentionSpec(4), MambaSpec(4, mode), max_num_batched_tokens=64, retention_interval=16)
    run.add("A", 27)
    run.launch()
    table = run.scheduler.kv_cache_manager.managers[1].block_tables["A"]
    kept = [index for index, block in enumerate(table) if block.keys]
    assert kept == ([5] if mode == "align" else [3, 5])


@pytest.mark.parametrize(
    ("groups", "match_unit", "sizes"),
    [
        ((FullAttentionSpec(16),), None, (16, 16)),
        ((FullAttentionSpec(32), SlidingWindowSpec(16, 40)), None, (32, 16)),
        ((FullAttentionSpec(32), SlidingWindowSpec(48, 40)), None, (96, 16)),
        ((FullAttentionSpec(32), MambaSpec(32, "align")), 8, (32, 8)),
        ((FullAttentionSpec(16), MambaSpec(64, "none")), None, (64, 64)),
    ],
)
def test_block_sizes(groups: tuple[KVCacheSpec, ...], match_unit: int | None, sizes: tuple[int, int]) -> None:
    """S-110: least common multiple, greatest common divisor; twice the former beside an odd mamba group."""
    config = EngineConfig(
        groups=tuple(KVCacheGroup(spec) for spec in groups),
        prefix_match_unit=match_unit,
        enable_prefix_caching=sizes != (64, 64),
    )
    assert config.block_sizes == sizes


def test_drafts_by_batch_size() -> None:
    """S-102: a gap carries the value before it, nothing exceeds the configured number."""
    table = SpeculativeConfig("ngram", 3, ((1, 2, 5), (5, 6, 1))).drafts_by_batch_size(8)
    assert table == [0, 3, 3, 3, 3, 1, 1, 1, 1]
