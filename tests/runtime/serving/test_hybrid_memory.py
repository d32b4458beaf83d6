"""Models with two memories: blocks of keys and values and blocks of states, counted by hand."""

from __future__ import annotations

import pytest

import serq
from serq.results import Report
from tests.shared import ROOT

EXAMPLE = ROOT / "examples" / "hybrid" / "qwen35.sq"


def run(groups: str, session: str, *, count: int = 1, options: str = "", horizon: int = 20) -> Report:
    text = f"""
    stage npu : vllm {{
      num_gpu_blocks 64; max_model_len 8192; max_num_batched_tokens 8192; max_num_seqs 8;
      async_scheduling false; {options} {groups}
      cost 1;
    }}
    workload {{ arrive batch({count}); }}
    session {{ {session} }}
    run {{ horizon {horizon}; }}
    """
    return serq.run(serq.compile(source=text))


FULL = "enable_prefix_caching false; group full { block_size 1536; }"


def memory(report: Report) -> tuple[float, int, float, int]:
    row = report.records.engines[0].memory
    assert row is not None and row.usable == 63
    return row.mean_kv_blocks, row.most_kv_blocks, row.mean_state_blocks, row.most_state_blocks


def test_a_state_a_request_and_group_however_long_it_is() -> None:
    """3000 + 10 tokens are 2 blocks of 1536; two requests run from 0 to 10 of 20, each with 3 states."""
    report = run(FULL + 3 * "group mamba { mode none; }", "request r on npu (3000, 10);", count=2)
    assert memory(report) == (pytest.approx(2), 4, pytest.approx(3), 6)
    assert report.engines.mean_kv_usage[0] == pytest.approx((2 + 3) / 63)
    assert report.to_dict()["engines"][0]["memory"] == {
        "usable": 63,
        "mean_kv_blocks": 2, "most_kv_blocks": 4,
        "mean_state_blocks": 3, "most_state_blocks": 6,
    }  # fmt: skip


def test_a_request_grows_into_its_next_block_and_not_into_a_state() -> None:
    """1530 tokens and 10 outputs: a second block when token 1537 is computed, in the eighth step (7 to 8).

    So 1 block for 7 s, 2 for 3 s, over 20 s.
    """
    report = run(FULL + "group mamba { }", "request r on npu (1530, 10);")
    assert memory(report) == (pytest.approx((7 * 1 + 3 * 2) / 20), 2, pytest.approx(10 / 20), 1)


def test_states_of_drafts() -> None:
    """Three drafts need a block each for their states (S-111)."""
    options = "speculative ngram { k 3; accept 0; }"
    report = run(
        FULL + "group mamba { num_speculative_blocks 3; }", "request r on npu (100, 5);", options=options
    )
    assert memory(report)[2:] == (pytest.approx(4 * 5 / 20), 4)


def test_aligned_states_are_found_again_at_block_boundaries() -> None:
    """A prompt of 3500 is computed in 3072 and 428 tokens (S-120); the next turn finds the state at 3072.

    While the second chunk runs there are two states, the one it began with and the new one (S-114).
    """
    report = run(
        "group full { block_size 1536; } group mamba { block_size 1536; mode align; }",
        "request r on npu (3500, 2); observe cached = cached_tokens(r);"
        "request r on npu (100, 2) follows r; observe cached = cached_tokens(r);",
    )
    assert list(report.observe("cached")["value"]) == [0, 3072]
    assert report.records.engines[0].table.tokens[:2].tolist() == [3072, 428]
    assert memory(report)[3] == 2


def test_models_without_states_have_no_such_row() -> None:
    report = run("group full { } group sliding { window 64; }", "request r on npu (100, 2);")
    assert report.records.engines[0].memory is None and "state blocks" not in repr(report)


def test_the_example() -> None:
    """Its blocks are as large as the states: 48 x 128 x 128 values of 4 bytes a layer (V-094, V-095).

    So 1536 tokens of 4 x 256 keys of 2 bytes are exactly one layer's state.
    """
    assert 1536 * 4 * 256 * 2 == 48 * 128 * 128 * 4
    report = serq.run(serq.compile(EXAMPLE, arrivals=20, horizon=600, warmup=0))
    row = report.records.engines[0].memory
    assert row is not None
    assert row.mean_kv_blocks + row.mean_state_blocks == pytest.approx(
        report.engines.mean_kv_usage[0] * row.usable
    )
    assert row.most_state_blocks % 3 == 0
