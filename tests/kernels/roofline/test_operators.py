"""Rooflines of single operators, computed by hand on a machine with round figures."""

from __future__ import annotations

import csv
from collections.abc import Callable

import pytest

from serq.kernels.catalogue.models import models
from serq.kernels.executor import DecodeTotals
from serq.kernels.roofline.machine import Machine
from serq.kernels.roofline.operators import Attention, Operators
from serq.kernels.roofline.shard import Shard
from serq.kernels.work import NOTHING, Part, Work
from tests.shared import shared

ROUND = Machine(1e12, 1e12, 1.0, 1.0, 0.0)
"""A million millions of operations and of bytes a second."""
SPLIT = Attention(split=lambda work: True)


def operators(
    model: str, ranks: int = 1, attention: Attention = SPLIT, machine: Machine = ROUND
) -> Operators:
    return Operators(Shard(models()[model], ranks), machine, attention)


def named(found: Operators) -> dict[str, Callable[[Work], float]]:
    return {operator.name: operator.seconds for operator in found.all()}


def seconds(model: str, work: Work, operator: str, ranks: int = 1) -> float:
    return named(operators(model, ranks))[operator](work)


def test_parameters_are_those_that_the_names_say() -> None:
    rows = csv.DictReader(shared("data", "executor", "qwen_model_dims.csv").read_text("utf-8").splitlines())
    for row in rows:
        assert models()[row["model"]].parameters / 1e9 == pytest.approx(
            float(row["text_params_billion_computed"]), abs=0.0006
        )


def test_an_mlp_of_one_token_reads_its_weights_and_of_many_computes() -> None:
    """Qwen3-8B: 36 layers of 3 x 4096 x 12288 weights are 5.436e9 parameters of two bytes."""
    weights = 36 * 3 * 4096 * 12288
    one = Work(1, Part(1, 1, 1, 1, 1), NOTHING)
    activations = 36 * (2 * 4096 + 3 * 12288) * 2
    assert seconds("Qwen3-8B", one, "mlp") == pytest.approx((2 * weights + activations) / 1e12, rel=1e-12)
    many = Work(1000, NOTHING, Part(1, 1000, 500500, 1000, 1000))
    assert seconds("Qwen3-8B", many, "mlp") == pytest.approx(2 * 1000 * weights / 1e12, rel=1e-12)


def test_attention_of_one_decode() -> None:
    """Qwen3-0.6B: 28 layers, 16/8 heads of 128; 100 computed tokens and the new one are 101 keys."""
    work = Work.of_decodes(DecodeTotals(1, 100, 100, 100), 1)
    operations, moved = 4 * 16 * 128 * 101, 2 * 8 * 128 * 101 * 2 + 2 * 16 * 128 * 2
    assert operations > moved
    assert seconds("Qwen3-0.6B", work, "attention") == pytest.approx(28 * operations / 1e12, rel=1e-12)


def test_attention_of_a_prefill_counts_causal_pairs() -> None:
    """A chunk of 3 tokens on 10: 11 + 12 + 13 pairs."""
    work = Work(3, NOTHING, Part(1, 3, 36, 13, 13))
    expected = 28 * 4 * 16 * 128 * 36 / 1e12
    assert seconds("Qwen3-0.6B", work, "attention") == pytest.approx(expected, rel=1e-12)


def test_a_mixed_call_pays_for_its_decodes_by_head_and_token() -> None:
    work = Work(11, Part(1, 1, 101, 101, 101), Part(1, 10, 55, 10, 10))
    rates = {"decode_head": 1e-9, "mixed_decode_head": 3e-9}
    both = [
        operators("Qwen3-0.6B", attention=Attention(lambda work, s=split: s, **rates)).attention_seconds(work)
        for split in (True, False)
    ]
    prefill = max(4 * 16 * 128 * 55, 2 * 8 * 128 * 10 * 2 + 2 * 16 * 128 * 10 * 2) / 1e12
    assert both[0] == pytest.approx(28 * (prefill + 1e-9 * 16 * 101), rel=1e-12)
    assert both[1] == pytest.approx(28 * (prefill + 3e-9 * 16 * 101), rel=1e-12)


def test_one_call_or_two_is_a_call_of_overhead() -> None:
    work = Work(11, Part(1, 1, 101, 101, 101), Part(1, 10, 55, 10, 10))
    slow = Machine(1e12, 1e12, 1.0, 1.0, 1.0)
    one, two = (
        operators("Qwen3-0.6B", attention=Attention(lambda work, s=split: s), machine=slow)
        .attention_seconds(work)
        for split in (False, True)
    )  # fmt: skip
    assert two - one == pytest.approx(28.0)


def test_a_gdn_decode_moves_the_state_twice() -> None:
    """Qwen3.5-27B: 48 layers, 48 value heads of 128 x 128 in fp32: 151 MB of state a request (facts)."""
    state = 48 * 48 * 128 * 128 * 4
    assert state == pytest.approx(151.0e6, rel=1e-3)
    window = 48 * (2 * 16 * 128 + 48 * 128) * 3 * 2
    assert window == pytest.approx(2.95e6, rel=1e-2)
    tokens = 48 * (3 * (2 * 16 * 128 + 48 * 128) + 2 * 48 * 128) * 2
    work = Work(1, Part(1, 1, 1, 1, 1), NOTHING)
    expected = (2 * (state + window) + tokens) / 1e12
    assert seconds("Qwen3.5-27B", work, "gdn") == pytest.approx(expected, rel=1e-12)


def test_a_gdn_chunk_computes_0_18_million_operations_a_token_and_head() -> None:
    """6 Dk Dv + 2 C (3 Dk + 2 Dv) + C^2 / 3 with C 64 and D 128 (facts, section 2.3)."""
    per_head = 6 * 128 * 128 + 2 * 64 * (3 * 128 + 2 * 128) + 64 * 64 / 3
    assert per_head == pytest.approx(0.18e6, rel=0.02)
    tokens = 10_000
    work = Work(tokens, NOTHING, Part(1, tokens, 1, tokens, tokens))
    expected = 48 * tokens * 48 * per_head / 1e12
    assert seconds("Qwen3.5-27B", work, "gdn") == pytest.approx(expected, rel=1e-12)


def test_experts_are_touched_as_often_as_even_choice_says() -> None:
    """One token of Qwen3-30B-A3B reads 8 of 128 experts; very many read all of them."""
    expert = 3 * 2048 * 768
    one = Work(1, Part(1, 1, 1, 1, 1), NOTHING)
    moved = 48 * 8 * expert * 2 + 48 * 8 * (2 * 2048 + 3 * 768) * 2
    assert seconds("Qwen3-30B-A3B", one, "experts") == pytest.approx(moved / 1e12, rel=1e-9)
    assert seconds("Qwen3-30B-A3B", one, "experts", ranks=4) == pytest.approx(moved / 4e12, rel=1e-9)


def test_the_head_computes_one_token_a_request() -> None:
    work = Work(1001, Part(1, 1, 1, 1, 1), Part(1, 1000, 1, 1, 1))
    weights = 151936 * 4096
    assert seconds("Qwen3-8B", work, "lm_head") == pytest.approx(2 * 2 * weights / 1e12, rel=1e-12)


def test_a_ring_of_four_sends_six_quarters() -> None:
    """Two all-reduces a layer of 10 x 4096 two-byte activations, 36 layers, at 1e9 bytes a second."""
    machine = Machine(1e12, 1e12, 1.0, 1.0, 0.0, link=1e9)
    work = Work(10, Part(10, 10, 10, 10, 1), NOTHING)
    collectives = named(operators("Qwen3-8B", 4, machine=machine))["collectives"]
    assert collectives(work) == pytest.approx(72 * 10 * 4096 * 2 * 1.5 / 1e9, rel=1e-12)
    assert "collectives" not in named(operators("Qwen3-8B", 1))


def test_engines_that_share_experts_gather_and_scatter_their_tokens() -> None:
    """Two engines of one rank, 10 tokens each: half of 20 x 2048 x 2 bytes crosses, twice, in 48 layers.

    Attention needs no all-reduce at one rank. Each rank computes 64 of 128 experts for half of the pairs.
    """
    machine = Machine(1e12, 1e12, 1.0, 1.0, 0.0, link=1e9)
    shard = Shard(models()["Qwen3-30B-A3B"], 1, 2, True)
    found = named(Operators(shard, machine, SPLIT))
    work = Work(10, Part(10, 10, 10, 10, 1), NOTHING)
    assert found["collectives"](work) == pytest.approx(48 * 2 * (20 * 2048 * 2 / 2) / 1e9, rel=1e-12)
    expert = 3 * 2048 * 768
    operations = 48 * 2 * (20 * 8 / 2) * expert
    assert found["experts"](work) == pytest.approx(operations / 1e12, rel=1e-9)


def test_tensor_parallel_experts_reduce_behind_attention_and_experts() -> None:
    machine = Machine(1e12, 1e12, 1.0, 1.0, 0.0, link=1e9, link_latency=1e-6)
    found = named(Operators(Shard(models()["Qwen3-30B-A3B"], 2), machine, SPLIT))
    work = Work(10, Part(10, 10, 10, 10, 1), NOTHING)
    expected = 96 * (10 * 2048 * 2 / 1e9 + 2 * 1e-6)
    assert found["collectives"](work) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "ranks", "message"),
    [
        ("Qwen3-8B", 3, "32 query heads, which 3 ranks"),
        ("Qwen3.5-27B", 16, "24 query heads"),
        ("Qwen3-14B", 16, "40 query heads"),
        ("Qwen3-30B-A3B", 9, "32 query heads"),
    ],
)  # fmt: skip
def test_heads_that_do_not_divide(model: str, ranks: int, message: str) -> None:
    fault = Shard(models()[model], ranks).fault()
    assert fault is not None and message in fault[0]
    assert fault[1].startswith("`tensor_parallel_size` may be 1, 2, 4")


def test_kv_heads_are_replicated() -> None:
    """Four KV heads on eight ranks: one each (the PR table has such rows)."""
    shard = Shard(models()["Qwen3.5-27B"], 8)
    assert shard.fault() is None and shard.num_kv_heads == 1 and shard.num_heads == 3
