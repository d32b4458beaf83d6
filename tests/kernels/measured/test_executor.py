"""Every rule of composing a step once, worked out by hand on tables of a few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.errors import DataError, RunError
from serq.kernels.catalogue.models import ModelShape, models
from serq.kernels.executor import DecodeTotals, Evidence, Price
from serq.kernels.measured.executor import Parallelism
from serq.kernels.measured.links import Link
from serq.kernels.measured.step_shape import StepShape
from serq.kernels.step_batch import BatchRow, StepBatch
from tests.kernels.measured.tiny_tables import DENSE, EXPERTS, QWEN, SKEW, SKEW_META, executor

SKEWED = {"meta.yaml": "tp_degrees: [1]\n" + SKEW_META.format(enabled="true"), "tp1/skew_fit.csv": SKEW}


def decode(computed: int) -> BatchRow:
    return BatchRow("r", 1, computed, 10, 0, True)


def prefill(query: int, computed: int = 0) -> BatchRow:
    return BatchRow("r", query, computed, 10_000, 0, False)


def batch(*rows: BatchRow) -> StepBatch:
    return StepBatch.of(rows)


def decodes(count: int) -> StepBatch:
    return batch(*[decode(100)] * count)


def shape(count: int) -> StepShape:
    return StepShape.of(decodes(count))


def microseconds(price: Price) -> dict[str, float]:
    return {operator.operator: operator.seconds * 1e6 for operator in price.operators}


def test_a_dense_step(tmp_path: Path) -> None:
    # 17 tokens in 2 sequences, 10 layers; a token costs its number in LAYERS.
    price = executor(tmp_path).price(batch(decode(100), prefill(16)))
    assert microseconds(price) == pytest.approx(
        {
            "embedding": 17 * 1,
            "layernorm": 17 * 2 * 2 * 10,
            "qkv_proj": 17 * 3 * 10,
            "rotary_emb": 17 * 5 * 10,
            "attention": 400 * 10,
            "o_proj": 17 * 6 * 10,
            "gate_up_proj": 17 * 7 * 10,
            "act_fn": 17 * 8 * 10,
            "down_proj": 17 * 9 * 10,
            "final_layernorm": 17 * 10,
            "lm_head": 2 * 11,
            "sampler": 2 * 12,
        }
    )
    total = 17 * (1 + 10 * (2 * 2 + 3 + 5 + 6 + 7 + 8 + 9) + 10) + 4000 + 2 * 23
    assert price.seconds == pytest.approx(total * 1e-6)


def test_queries_and_keys_are_normalised_in_two_calls_on_a_share_of_the_heads(tmp_path: Path) -> None:
    whole = executor(tmp_path / "1", QWEN).price(decodes(1))
    assert microseconds(whole)["qk_norm"] == pytest.approx(2 * 4 * 10)
    halved = executor(tmp_path / "2", QWEN, Parallelism(tensor=2), Link(1e9, 0)).price(decodes(1))
    assert microseconds(halved)["qk_norm"] == pytest.approx(4 * 10)
    assert "qk_norm" not in microseconds(executor(tmp_path / "3", DENSE).price(decodes(1)))


def test_two_all_reduces_a_layer_under_tensor_parallelism(tmp_path: Path) -> None:
    # 8 tokens of 100 bf16 values: 1600 bytes; on two devices 800 pass in each of two phases of 20 us.
    price = executor(tmp_path, DENSE, Parallelism(tensor=2), Link(1e8, 20e-6)).price(decodes(8))
    one = 2 * (800 / 1e8 + 20e-6) * 1e6
    assert microseconds(price)["all_reduce_1"] == pytest.approx(one * 10)
    assert microseconds(price)["all_reduce_2"] == pytest.approx(one * 10)
    names = [operator.operator for operator in price.operators]
    assert names.index("all_reduce_1") == names.index("o_proj") + 1
    assert names.index("all_reduce_2") == names.index("down_proj") + 1
    assert {o.evidence for o in price.operators if "reduce" in o.operator} == {Evidence.ASSUMED}


def test_dense_operators_run_on_the_tokens_of_the_graph(tmp_path: Path) -> None:
    # 5 decodes in a graph of 8: attention and what goes by sequences see 5.
    price = microseconds(executor(tmp_path, capture=(1, 2, 4, 8)).price(decodes(5)))
    assert price["qkv_proj"] == pytest.approx(8 * 3 * 10)
    assert price["lm_head"] == pytest.approx(5 * 11)
    # (30 - 10) / 3 microseconds a decode more beyond the last two points, 1 and 4.
    assert price["attention"] == pytest.approx((30 + 20 / 3) * 10)


def test_a_step_beyond_the_largest_graph_is_not_padded(tmp_path: Path) -> None:
    price = microseconds(executor(tmp_path, capture=(1, 2, 4)).price(decodes(5)))
    assert price["qkv_proj"] == pytest.approx(5 * 3 * 10)


def test_a_share_of_one_token_is_a_decode_even_if_it_ends_a_prompt(tmp_path: Path) -> None:
    pricing = executor(tmp_path)
    ends_a_prompt = BatchRow("r", 1, 100, 101, 0, False)
    assert pricing.price(batch(ends_a_prompt)) == pricing.price(batch(decode(100)))


def test_decodes_cost_what_their_mean_context_says(tmp_path: Path) -> None:
    # one decode: 10 at 100, 20 at 200; four: 30 and 70. Two of mean 150: 15 + (50 - 15) / 3.
    price = microseconds(executor(tmp_path).price(batch(decode(100), decode(200))))
    assert price["attention"] == pytest.approx((15 + 35 / 3) * 10)


def test_unequal_decodes_cost_alpha_of_the_way_to_the_longest(tmp_path: Path) -> None:
    pricing = executor(tmp_path, files=SKEWED)
    # 100 and 200: mean 150, rate 0.5 falls into `low` (closed on the right), which was not fitted: 0.25.
    at_mean, at_longest = 15 + 35 / 3, 20 + 50 / 3
    price = pricing.price(batch(decode(100), decode(200)))
    assert microseconds(price)["attention"] == pytest.approx((at_mean + 0.25 * (at_longest - at_mean)) * 10)
    assert price.operators[4].evidence is Evidence.FITTED
    # Equal contexts: nothing to correct.
    level = pricing.price(batch(decode(150), decode(150)))
    assert microseconds(level)["attention"] == pytest.approx(at_mean * 10)


def test_alpha_of_the_bucket_of_a_step(tmp_path: Path) -> None:
    files = SKEWED | {"tp1/skew_fit.csv": SKEW.replace("n<=2", "n<=4")}
    # Contexts 100, 200, 200: mean 500/3, rate 2/3 (`high`), longest 200 (`long`), no prefill: alpha 1.5.
    price = microseconds(executor(tmp_path, files=files).price(batch(decode(100), decode(200), decode(200))))
    at_mean = (10 + 20 / 3) / 3 + (30 + 80 / 3) * 2 / 3
    at_longest = 20 / 3 + 70 * 2 / 3
    assert price["attention"] == pytest.approx((at_mean + 1.5 * (at_longest - at_mean)) * 10)


def test_a_mixed_step_takes_the_default_alpha(tmp_path: Path) -> None:
    files = SKEWED | {"tp1/skew_fit.csv": SKEW.replace("\n0,", "\n16,")}
    pricing = executor(tmp_path, files=files)
    # 20 new tokens are no measured prefill. Its chunk is a quarter of the way from 16 to 32, and (16, 4) is
    # not in the grid, so two cost what one costs: 420 and 840 at the mean, 440 and 880 at the longest.
    price = microseconds(pricing.price(batch(decode(100), decode(200), prefill(20))))
    assert price["attention"] == pytest.approx((525 + 0.25 * (550 - 525)) * 10)


def test_meta_says_disabled_and_the_file_of_alphas_is_not_even_read(tmp_path: Path) -> None:
    files = {"meta.yaml": SKEW_META.format(enabled="false"), "tp1/skew_fit.csv": "rubbish\n"}
    price = microseconds(executor(tmp_path, files=files).price(batch(decode(100), decode(200))))
    assert price["attention"] == pytest.approx((15 + 35 / 3) * 10)


def test_several_prefills_are_one_of_equal_causal_area(tmp_path: Path) -> None:
    pricing = executor(tmp_path)
    # 8 on 0 and 8 on 64: k = 8 * 64 / 16 = 32; q^2/2 + 32 q = 32 + 8 * (64 + 4): q = sqrt(2176) - 32.
    two = batch(prefill(8), prefill(8, 64))
    chunk = 2176**0.5 - 32
    assert StepShape.of(two) == pytest.approx((16, 2, chunk, 32, 0, 0, 0, 0))
    # Below 16 new tokens the grid is clamped: 100 at history 0, 150 at 64, so 125 at 32.
    assert chunk < 16
    assert microseconds(pricing.price(two))["attention"] == pytest.approx(1250)


def test_experts_of_one_device(tmp_path: Path) -> None:
    # 4 tokens activate 8 of 16 experts.
    price = executor(tmp_path, EXPERTS).price(decodes(4))
    names = [operator.operator for operator in price.operators]
    assert microseconds(price)["moe"] == pytest.approx(50 * 10)
    assert "gate_up_proj" not in names and names.index("moe") == names.index("o_proj") + 1


def test_experts_over_two_engines_in_lock_step(tmp_path: Path) -> None:
    # 2 and 6 tokens: a device gets pairs worth 4 tokens and activates min(8, 8) of its 8 experts.
    link = Link(1e6, 5e-6, expert_bytes=0.5)
    pricing = executor(tmp_path, EXPERTS, Parallelism(data=2, expert=True), link)
    price = microseconds(pricing.price_ranks([shape(2), shape(6)]))
    assert price["moe"] == pytest.approx(50 * 10)
    # 6 tokens of the larger rank: (100 + 16) and 100 bf16 values each, at half their bytes.
    assert price["all_gather"] == pytest.approx((6 * 116 * 2 / 2 / 1e6 + 5e-6) * 1e7)
    assert price["reduce_scatter"] == pytest.approx((6 * 100 * 2 / 2 / 1e6 + 5e-6) * 1e7)
    # The slower rank is the one with 6 tokens.
    assert price["qkv_proj"] == pytest.approx(6 * 3 * 10)


def test_engines_in_lock_step_pad_to_the_larger_graph(tmp_path: Path) -> None:
    link = Link(1e6, 0)
    pricing = executor(tmp_path, EXPERTS, Parallelism(data=2, expert=True), link, capture=(1, 4, 8))
    price = microseconds(pricing.price_ranks([shape(1), shape(5)]))
    assert price["qkv_proj"] == pytest.approx(8 * 3 * 10)
    # (8 + 8) / 2 tokens, min(16, 8) experts.
    assert price["moe"] == pytest.approx(60 * 10)
    # One of the two above the largest graph: both run on what they have; (1 + 9) / 2 tokens activate 8.
    price = microseconds(pricing.price_ranks([shape(1), shape(9)]))
    assert price["qkv_proj"] == pytest.approx(9 * 3 * 10)
    assert price["moe"] == pytest.approx((50 + 10 / 4) * 10)


def test_an_idle_engine_takes_part_with_a_dummy_token(tmp_path: Path) -> None:
    pricing = executor(tmp_path, EXPERTS, Parallelism(data=2, expert=True), Link(1e6, 0))
    alone = pricing.price_ranks([None, shape(7)])
    # (7 + 1) / 2 tokens.
    assert microseconds(alone)["moe"] == pytest.approx(50 * 10)
    # One that is priced by itself has company that does the same: (4 + 4) / 2 tokens.
    assert microseconds(pricing.price(decodes(4)))["moe"] == pytest.approx(50 * 10)
    with pytest.raises(ValueError, match="empty"):
        pricing.price_ranks([None, None])


def test_whole_experts_over_tensor_parallel_devices(tmp_path: Path) -> None:
    pricing = executor(tmp_path, EXPERTS, Parallelism(tensor=2, expert=True), Link(1e8, 20e-6))
    price = microseconds(pricing.price(decodes(8)))
    assert price["moe"] == pytest.approx(50 * 10)
    assert price["all_reduce_2"] == price["all_reduce_1"]


@pytest.mark.parametrize("contexts", [(100,), (100, 200), (3, 1000, 57), (150, 150, 150, 151, 9999)])
def test_the_totals_of_decodes_price_them_bit_for_bit(tmp_path: Path, contexts: tuple[int, ...]) -> None:
    pricing = executor(tmp_path, files=SKEWED, capture=(1, 2, 4))
    totals = DecodeTotals(len(contexts), sum(contexts), min(contexts), max(contexts))
    assert pricing.price_decodes(totals) == pricing.price(batch(*map(decode, contexts)))


def test_the_operators_add_up_left_to_right(tmp_path: Path) -> None:
    price = executor(tmp_path).price(batch(decode(123), prefill(20, 7)))
    seconds = 0.0
    for operator in price.operators:
        seconds += operator.seconds
    assert price.seconds == seconds


def test_evidence_of_an_operator(tmp_path: Path) -> None:
    pricing = executor(tmp_path)

    def evidence(*rows: BatchRow) -> dict[str, Evidence]:
        return {o.operator: o.evidence for o in pricing.price(batch(*rows)).operators}

    assert evidence(decode(100))["attention"] is Evidence.MEASURED
    assert evidence(decode(100))["qkv_proj"] is Evidence.MEASURED
    assert evidence(*[decode(100)] * 3)["qkv_proj"] is Evidence.INTERPOLATED
    assert evidence(decode(150))["attention"] is Evidence.INTERPOLATED
    assert evidence(decode(10))["attention"] is Evidence.EXTRAPOLATED
    assert evidence(decode(300))["attention"] is Evidence.EXTRAPOLATED


def test_what_lies_outside_the_measured_range_is_named(tmp_path: Path) -> None:
    pricing = executor(tmp_path)

    def beyond(*rows: BatchRow) -> dict[str, list[tuple[object, ...]]]:
        operators = pricing.price(batch(*rows)).operators
        return {o.operator: [tuple(found) for found in o.outside] for o in operators if o.outside}

    assert beyond(decode(150)) == {}
    assert beyond(decode(300)) == {"attention": [("mean_context_decode", 300, 100, 200)]}
    assert beyond(*[decode(100)] * 9) == {
        "attention": [("decoders", 9, 1, 4)],
        "lm_head": [("scheduled", 9, 1, 8)],
        "sampler": [("scheduled", 9, 1, 8)],
    }
    # Where the longest context counts too, it is the one that is named.
    skewed = executor(tmp_path / "skewed", files=SKEWED).price(batch(decode(100), decode(300)))
    assert [tuple(found) for found in skewed.operators[4].outside] == [("mean_context_decode", 300, 100, 200)]
    # Beside a prefill one decode was measured, and histories up to 64.
    mixed = beyond(decode(100), decode(100), prefill(8, 96))["attention"]
    assert mixed == [("prefilled", 8, 16, 32), ("decoders", 2, 1, 1), ("context_prefill", 96, 0, 64)]


def test_steps_that_verify_drafts_are_in_no_table(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="drafts"):
        executor(tmp_path).price(batch(BatchRow("r", 3, 100, 10, 2, True)))


@pytest.mark.parametrize(
    ("parallelism", "model", "reason"),
    [
        (Parallelism(tensor=2), DENSE, "give its bandwidth and latency"),
        (Parallelism(data=2, expert=True), EXPERTS, "give its bandwidth and latency"),
        (Parallelism(data=2, expert=True), DENSE, "has no experts"),
        (Parallelism(data=2), EXPERTS, "needs expert parallelism"),
        (Parallelism(data=3, expert=True), EXPERTS, "no even shares"),
        (Parallelism(tensor=2, data=2, expert=True), EXPERTS, "both tensor and data"),
        (Parallelism(), models()["Qwen3.5-27B"], "linear attention"),
    ],
)
def test_what_the_rules_do_not_cover(parallelism: Parallelism, model: ModelShape, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        parallelism.check(model, None)
