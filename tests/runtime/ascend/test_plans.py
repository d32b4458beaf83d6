"""Chunk prediction (V-060 to V-063) and DyntraLB's plan (V-056)."""

import pytest

from serq.runtime.ascend.balance_plan import BalanceStep, RankLoad, balance_plan
from serq.runtime.ascend.chunk_predictor import ChunkPredictor, ProfilingChunkConfig, profile_lengths


def fitted(**options: object) -> ChunkPredictor:
    """A predictor that knows f(l) = 1e-6 l^2 + 0.01 l + 3."""
    config = ProfilingChunkConfig(**{"min_chunk": 64, **options})  # type: ignore[arg-type]
    predictor = ChunkPredictor(8192, 128, config)
    lengths = profile_lengths(8192)
    assert predictor.fit(lengths, [1e-6 * n * n + 0.01 * n + 3 for n in lengths])
    return predictor


def test_64_lengths_are_timed() -> None:
    lengths = profile_lengths(8192)
    assert (len(lengths), lengths[0], lengths[-1]) == (64, 8192, 128)


def test_the_target_is_the_time_of_a_whole_first_chunk() -> None:
    predictor = fitted()
    assert predictor.target_ms == pytest.approx(1e-6 * 8192**2 + 81.92)
    assert predictor.predict_time(8192, 0) == pytest.approx(predictor.target_ms)


def test_a_later_chunk_takes_the_same_time_rounded_up() -> None:
    # 1e-6 x^2 + (2e-6 * 8192 + 0.01) x = 149.03 has the root 4781.
    assert fitted().predict_chunk_size(8192) == 38 * 128
    assert fitted(min_chunk=6000).predict_chunk_size(8192) == 47 * 128
    assert fitted(smooth_factor=0.0).predict_chunk_size(8192) == 8192


def test_too_few_points_and_no_fit_predict_nothing() -> None:
    predictor = ChunkPredictor(8192, 128, ProfilingChunkConfig())
    assert not predictor.fit([1] * 7, [1.0] * 7)
    assert predictor.predict_chunk_size(0) is None


def test_recorded_steps_take_over_after_five_and_stop_after_the_limit() -> None:
    predictor = fitted(max_fit_chunk=6)
    for new in (1000, 2000, 3000, 4000):
        predictor.record([(new, 1000)], 0.5)
    assert not predictor.uses_history
    for new in (512, 1024, 2048, 3072):
        end = new + 5000
        predictor.record([(new, 5000)], (2e-6 * new * end + 1e-3 * end + 4) / 1000)
    assert predictor.uses_history
    assert predictor.history_complete


def test_history_prices_a_chunk_by_its_end() -> None:
    predictor = fitted()
    for new, computed in ((512, 0), (1024, 512), (2048, 1536), (4096, 3584), (300, 9000), (700, 100)):
        end = new + computed
        predictor.record([(new, computed)], (2e-6 * new * end + 1e-3 * end + 4) / 1000)
    expected = 2e-6 * 1000 * 5000 + 1e-3 * 5000 + 4
    assert predictor.predict_time(1000, 4000) == pytest.approx(expected)
    assert predictor.predict_chunk_size(4000, expected) == 1024


def plan(ranks: list[tuple[list[int], list[int]]], slots: int, threshold: float) -> list[BalanceStep]:
    loads = [RankLoad(list(running), list(waiting)) for running, waiting in ranks]
    return balance_plan(loads, max_num_seqs=slots, bubble_threshold=threshold)


def test_free_slots_are_filled_and_a_balanced_group_is_left_alone() -> None:
    assert plan([([5], [7, 9]), ([12], [])], 2, 5.0) == [BalanceStep((), (7,)), BalanceStep((), ())]
    assert plan([([5, 5], []), ([9], [])], 2, 5.0)[1].freeze


def test_the_least_loaded_rank_swaps_up() -> None:
    # Loads 69 and 14: 5 makes way for 20 (29, mean 49) rather than 9 for 20 (25, mean 47).
    assert plan([([], [9, 60]), ([9, 5], [20])], 2, 1.0)[1] == BalanceStep((5,), (20,))


def test_the_most_loaded_rank_swaps_down() -> None:
    assert plan([([9, 20], [20, 2]), ([], [1])], 2, 5.0)[0] == BalanceStep((20,), (2,))


def test_a_request_is_paused_where_that_promises_more_throughput() -> None:
    # 3 requests at 5000 blocks: 3 / 116000; without the large one 2 / 20960.
    assert plan([([5000, 50], []), ([50], [])], 2, 5.0)[0] == BalanceStep((5000,), ())


def test_a_ratio_is_meant_below_one() -> None:
    ranks = [([100], [1]), ([99], [1])]
    assert plan(ranks, 1, 0.9) == [BalanceStep((), ()), BalanceStep((), ())]


def test_slots_are_read_as_published() -> None:
    assert RankLoad.of_slots([9, 5, 20, 0], 2) == RankLoad([9, 5], [20])
