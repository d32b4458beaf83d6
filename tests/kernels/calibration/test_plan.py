"""Which points a calibration measures, and the steps that lie at them."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.errors import DataError, UsageError
from serq.kernels.calibration.plan import Target, make_plan, read_plan, sizes, step_at, write_plan
from serq.kernels.tables.quantities import QUANTITIES, StepSums

DENSE = Target(model="Qwen3-8B", device="cpu")
HYBRID = Target(model="Qwen3.5-27B", device="910B3", max_num_seqs=16, max_num_batched_tokens=512)


def test_sizes_go_up_by_a_factor_and_hold_both_ends() -> None:
    assert sizes(1, 2048, 4) == (1, 4, 16, 64, 256, 1024, 2048)
    assert sizes(1, 100, 10) == (1, 10, 100)
    assert sizes(1, 3, 1.3) == (1, 2, 3)
    assert sizes(5, 5, 2) == (5,)


def test_a_dense_model_takes_so_many_points() -> None:
    """Tokens 1..2048: 7 sizes for four operators; requests 1..128: 5; contexts 1, 8, 64 blocks: 3.

    Attention: 5 * 3 decodes, 7 * 3 prefills, and 3 * 2 * 3 * 2 mixed ones.
    """
    plan = make_plan(DENSE)
    counts = {table.name: len(table.points) for table in plan.tables}
    assert counts == {
        "embedding": 7, "attention_projections": 7, "norms_and_activations": 7, "mlp": 7, "lm_head": 5,
        "attention_decodes": 15, "attention_prefills": 21, "attention_mixed": 36,
    }  # fmt: skip
    assert plan.size == 105


@pytest.mark.parametrize("target", [DENSE, HYBRID, Target(model="Qwen3.5-35B-A3B", device="cuda")])
def test_every_point_is_a_step_that_reads_as_that_point(target: Target) -> None:
    for table in make_plan(target, 3.0).tables:
        for point in table.points:
            sums = StepSums.of(step_at(table.axes, point))
            assert [QUANTITIES[axis](sums) for axis in table.axes] == list(point), table.name
            assert not table.when or QUANTITIES[table.when](sums)


def test_a_plan_is_kept_and_another_one_is_not_put_over_it(tmp_path: Path) -> None:
    plan = make_plan(DENSE)
    write_plan(plan, tmp_path / "c")
    write_plan(plan, tmp_path / "c")
    assert read_plan(tmp_path / "c") == plan
    with pytest.raises(DataError, match="another plan"):
        write_plan(make_plan(DENSE, 8.0), tmp_path / "c")
    (tmp_path / "c" / "plan.json").write_text('{"schema": 2}')
    with pytest.raises(DataError, match=r"plan\.json"):
        read_plan(tmp_path / "c")


@pytest.mark.parametrize(
    ("target", "spacing", "complaint"),
    [
        (Target(model="Qwen3-9B", device="cpu"), 4.0, "unknown model"),
        (Target(model="Qwen3-8B", device="gpu"), 4.0, "unknown device `gpu`, neither cpu nor cuda"),
        (Target(model="Qwen3-8B", device="cpu", tensor_parallel_size=3), 4.0, "3 ranks"),
        (DENSE, 1.0, "1 times apart"),
    ],
)
def test_what_cannot_be_planned(target: Target, spacing: float, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        make_plan(target, spacing)
