"""Capture sizes, dispatch and the agreement of ranks (V-071 to V-075)."""

import pytest

from serq.kernels.ascend.dispatch import BatchPlanner, GraphDispatcher, RankState
from serq.kernels.ascend.graph_mode import DeviceFamily, GraphMode, GraphOptions, resolve_graph_config
from serq.kernels.ascend.padding import PaddingError

FULL, PIECEWISE, NONE = GraphMode.FULL, GraphMode.PIECEWISE, GraphMode.NONE


def planner(max_num_seqs: int = 32, drafts: int = 0, **options: object) -> BatchPlanner:
    graphs = GraphOptions(max_num_seqs, num_speculative_tokens=drafts, **options)  # type: ignore[arg-type]
    dispatcher = GraphDispatcher(resolve_graph_config(graphs), max_num_seqs, 1 + drafts)
    return BatchPlanner(dispatcher, 1 + drafts, speculative=drafts > 0)


def test_default_capture_sizes() -> None:
    assert resolve_graph_config(GraphOptions(32)).capture_sizes == (1, 2, 4, 8, 16, 24, 32)
    many = resolve_graph_config(GraphOptions(2000)).capture_sizes
    assert many[-1] == 512
    assert many[many.index(256) :][:3] == (256, 272, 288)
    assert resolve_graph_config(GraphOptions(20)).max_capture_size == 16  # 20 itself is not captured


def test_piecewise_graphs_of_an_a5_are_four() -> None:
    options = GraphOptions(256, device=DeviceFamily.A5)
    assert resolve_graph_config(options).capture_sizes == (1, 72, 168, 256)
    decodes = GraphOptions(256, device=DeviceFamily.A5, mode=GraphMode.FULL_DECODE_ONLY)
    assert len(resolve_graph_config(decodes).capture_sizes) == 35


def test_sharded_tokens_keep_multiples_of_the_tensor_parallel_size() -> None:
    options = GraphOptions(32, tensor_parallel_size=4, shards_tokens=True)
    assert resolve_graph_config(options).capture_sizes == (4, 8, 16, 24, 32)


def test_modes_forced_by_the_model() -> None:
    assert resolve_graph_config(GraphOptions(8, encoder_decoder=True)).mode is PIECEWISE
    assert resolve_graph_config(GraphOptions(8, xlite_decode=True)).mode is GraphMode.FULL_DECODE_ONLY
    eager = resolve_graph_config(GraphOptions(8, enforce_eager=True))
    assert (eager.mode, eager.compiled, eager.capture_sizes) == (NONE, False, ())


def test_uniform_decodes_run_as_full_graphs_and_mixed_batches_piecewise() -> None:
    decodes = planner().plan([50] * 9, [1] * 9).descriptor
    assert (decodes.mode, decodes.num_tokens, decodes.num_reqs) == (FULL, 16, 16)
    mixed = planner().plan([50, 0], [1, 10]).descriptor
    assert (mixed.mode, mixed.num_tokens, mixed.num_reqs) == (PIECEWISE, 16, None)
    beyond = planner().plan([50, 0], [1, 40]).descriptor
    assert (beyond.mode, beyond.num_tokens) == (NONE, 41)


def test_fresh_one_token_prompts_are_uniform_unless_there_is_speculation() -> None:
    assert planner().plan([0, 0], [1, 1]).descriptor.mode is FULL
    assert planner(drafts=1).plan([0, 9], [2, 2]).descriptor.mode is PIECEWISE
    speculative = planner(drafts=1).plan([8, 9, 9], [2, 2, 2]).descriptor
    assert (speculative.num_tokens, speculative.num_reqs) == (8, 4)


def test_full_decode_only_leaves_mixed_batches_eager_and_unpadded() -> None:
    mixed = planner(mode=GraphMode.FULL_DECODE_ONLY).plan([50, 0], [1, 10]).descriptor
    assert (mixed.mode, mixed.num_tokens) == (NONE, 11)


def test_a_rank_with_a_graph_pads_to_an_eager_rank_that_does_not_pad() -> None:
    decodes = planner().plan_with_ranks([9, 9, 9], [1, 1, 1], [RankState(700, NONE)])
    assert (decodes.descriptor.mode, decodes.descriptor.num_tokens) == (NONE, 700)
    assert decodes.tokens_across_ranks == (700, 700)
    prefill = planner().plan_with_ranks([0], [700], [RankState(4, FULL)])
    assert prefill.descriptor.num_tokens == 700
    assert prefill.tokens_across_ranks == (700, 4)


def test_the_least_mode_of_the_ranks_wins() -> None:
    plan = planner().plan_with_ranks([9] * 3, [1] * 3, [RankState(16, PIECEWISE)])
    assert (plan.descriptor.mode, plan.descriptor.num_tokens) == (PIECEWISE, 16)
    with pytest.raises(PaddingError, match="agreed on 5"):
        planner().plan_with_ranks([9] * 3, [1] * 3, [RankState(5, PIECEWISE)])


def test_without_agreement_each_rank_assumes_its_own_count() -> None:
    assert planner().plan_without_agreement([9] * 3, [1] * 3, 4).tokens_across_ranks == (4, 4, 4, 4)
