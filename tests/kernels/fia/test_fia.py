"""Attention of Ascend 950: the printed rows are exact, and the model between them is as good as it says."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from serq.errors import RunError
from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.executor import DecodeTotals, Evidence, Executor
from serq.kernels.fia.attention import MeasuredAttention, split_rule
from serq.kernels.fia.model import FITTED, AttentionModel
from serq.kernels.fia.points import Heads, Point, points
from serq.kernels.registry import PricedStage, create_executor
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.kernels.work import Part, Work
from tests.shared import shared


def measured_step(prefill_tokens: int, decoders: int = 23, keys: int = 8192) -> StepBatch:
    rows = [BatchRow(f"d{i}", 1, keys - 1, 1, 0, True) for i in range(decoders)]
    rows.append(BatchRow("p", prefill_tokens, 8192 - prefill_tokens, 8192, 0, False))
    return StepBatch.of(tuple(rows))


def work(batch: StepBatch) -> Work:
    decodes, prefills = (Part.of(row for row in batch.rows if row.decode is kind) for kind in (True, False))
    return Work(batch.tokens, decodes, prefills)


def attention(heads: Heads, ranks: int = 1, split: str = "auto") -> MeasuredAttention:
    return MeasuredAttention(heads, 1, ranks, split_rule(split))


def test_all_rows_as_printed() -> None:
    """40 rows by ranks and heads, and 6 by prefill tokens, one of which repeats a row of the first table."""
    main = csv.DictReader(
        shared("data", "executor", "fia_mixed_split_ascend950.csv").read_text("utf-8").splitlines()
    )
    for row in main:
        heads = Heads(int(row["q_heads"]), int(row["kv_heads"]), int(row["head_dim"]))
        operator, step = attention(heads, int(row["tp"])), work(measured_step(3968))
        for split, column in ((False, "off_ms"), (True, "on_ms")):
            price = operator.in_form(step, split)
            assert price.seconds == float(row[column]) / 1e3 and price.evidence is Evidence.MEASURED
    span = csv.DictReader(
        shared("data", "executor", "fia_mixed_split_vs_prefill_span.csv").read_text("utf-8").splitlines()
    )
    for row in span:
        operator, step = attention(Heads(24, 4, 256)), work(measured_step(int(row["prefill_tokens"])))
        repeated = row["prefill_tokens"] == "3968"
        for split, column in ((False, "off_ms"), (True, "on_ms")):
            expected = float(row[column]) / 1e3
            assert operator.in_form(step, split).seconds == pytest.approx(
                expected, rel=0.006 if repeated else 1e-15
            )


def test_a_shape_measured_at_other_ranks_is_the_mean_of_its_repeats() -> None:
    """4/1 x 256 at 2, 4 and 8 ranks: 0.731, 0.713 and 0.714 ms in one call."""
    price = attention(Heads(4, 1, 256), ranks=1).in_form(work(measured_step(3968)), split=False)
    assert price.seconds == pytest.approx((0.731 + 0.713 + 0.714) / 3e3)
    assert price.evidence is Evidence.MEASURED


def test_auto_takes_the_cheaper_form() -> None:
    """The table has gains and losses: 24/4 x 256 gains by two calls, 1/1 x 256 at 8 ranks loses."""
    step = work(measured_step(3968))
    assert attention(Heads(24, 4, 256)).price(step).seconds == pytest.approx(3.181e-3)
    assert attention(Heads(1, 1, 256), ranks=8).price(step).seconds == pytest.approx(0.363e-3)
    assert attention(Heads(1, 1, 256), ranks=8, split="always").price(step).seconds == pytest.approx(0.402e-3)
    assert attention(Heads(24, 4, 256), split="never").price(step).seconds == pytest.approx(3.774e-3)


def test_other_heads_are_fitted_and_other_batches_extrapolated() -> None:
    between = attention(Heads(12, 4, 128)).in_form(work(measured_step(3968)), split=True)
    assert between.evidence is Evidence.FITTED and not between.outside
    other = attention(Heads(24, 4, 256)).in_form(work(measured_step(3968, decoders=10, keys=4096)), True)
    assert other.evidence is Evidence.EXTRAPOLATED
    assert {(o.dimension, o.value, o.low, o.high) for o in other.outside} == {
        ("decoders", 10, 23, 23),
        ("decode_keys", 4096, 8192, 8192),
    }


def test_requests_of_other_lengths_with_the_same_sum_are_not_measured() -> None:
    rows = list(measured_step(3968).rows)
    rows[0], rows[1] = rows[0]._replace(computed=8190), rows[1]._replace(computed=8192)
    price = attention(Heads(24, 4, 256)).in_form(work(StepBatch.of(tuple(rows))), split=True)
    assert price.evidence is Evidence.FITTED


def test_an_independent_measurement() -> None:
    """vllm-ascend PR 11948: 16/2 x 256, a prompt of 11274 tokens in 3.794 ms, if its keys are its tokens."""
    prompt = StepBatch.of((BatchRow("p", 11274, 0, 11274, 0, False),))
    price = attention(Heads(16, 2, 256)).in_form(work(prompt), split=True)
    assert price.seconds == pytest.approx(3.794e-3, rel=0.15) and price.evidence is Evidence.EXTRAPOLATED


# --- the fit ------------------------------------------------------------------------------------------------

FIGURES = [("fixed", None), ("bandwidth", None)] + [
    (name, dim) for name, dim in product(("rate", "decode_head", "mixed_decode_head"), (256, 128))
]


def figures(model: AttentionModel) -> list[float]:
    return [getattr(model, name) if dim is None else getattr(model, name)[dim] for name, dim in FIGURES]


def model_of(values: Sequence[float]) -> AttentionModel:
    given: dict[str, float | dict[int, float]] = {}
    for (name, dim), value in zip(FIGURES, values, strict=True):
        if dim is None:
            given[name] = value
        else:
            given.setdefault(name, {})[dim] = value  # type: ignore[index]
    assert {field.name for field in fields(AttentionModel)} == given.keys()
    return AttentionModel(**given)  # type: ignore[arg-type]


def errors(model: AttentionModel, rows: Sequence[Point], split: bool) -> list[float]:
    return [
        model.seconds(work(measured_step(row.prefill_tokens)), row.heads, split)
        / (row.split if split else row.mixed)
        - 1.0
        for row in rows
    ]


def fit(rows: Sequence[Point]) -> AttentionModel:
    """Least squares of relative errors of both columns, in units of the shipped figures."""
    unit = np.array(figures(FITTED))

    def residuals(scaled: np.ndarray) -> list[float]:
        model = model_of(list(scaled * unit))
        return errors(model, rows, True) + errors(model, rows, False)

    found = least_squares(residuals, np.ones(len(unit)), bounds=(0, np.inf))
    return model_of(list(found.x * unit))


def test_the_shipped_figures_are_those_of_the_fit() -> None:
    assert figures(fit(points())) == pytest.approx(figures(FITTED), rel=2e-3)


def test_a_shape_left_out_is_predicted_within_three_and_a_half_percent() -> None:
    """Mean errors 3.30 % for two calls and 2.81 % for one; at worst 13.7 %."""
    left_out: dict[bool, list[float]] = {True: [], False: []}
    for heads in sorted({row.heads for row in points()}):
        model = fit([row for row in points() if row.heads != heads])
        rows = [row for row in points() if row.heads == heads]
        for split in (True, False):
            left_out[split] += map(abs, errors(model, rows, split))
    assert np.mean(left_out[True]) == pytest.approx(0.0330, abs=0.0005)
    assert np.mean(left_out[False]) == pytest.approx(0.0281, abs=0.0005)
    assert max(left_out[True] + left_out[False]) == pytest.approx(0.137, abs=0.002)


# --- in an executor -----------------------------------------------------------------------------------------


def built(**options: str | int) -> Executor:
    given = {"fia": "ascend950", "model": "Qwen3.5-27B", **options}
    declared = Declared("e", "table", tuple(ExecutorOption(name, value) for name, value in given.items()))
    return create_executor(declared, PricedStage("gpu")).executor


def test_a_table_executor_prices_attention_of_all_layers() -> None:
    """16 full-attention layers; at two ranks 12/2 heads."""
    (price,) = built().price(measured_step(3968)).operators
    assert price.seconds == pytest.approx(16 * 3.181e-3)
    (price,) = built(tensor_parallel_size=2, fia_split="never").price(measured_step(3968)).operators
    assert price.seconds == pytest.approx(16 * 1.874e-3)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=30))
def test_decodes_need_no_rows(contexts: list[int]) -> None:
    executor = built()
    rows = tuple(BatchRow(str(i), 1, computed, 1, 0, True) for i, computed in enumerate(contexts))
    totals = DecodeTotals(len(contexts), sum(contexts), min(contexts), max(contexts))
    assert executor.price_decodes(totals) == executor.price(StepBatch.of(rows))


def alone(*options: ExecutorOption) -> object:
    return create_executor(Declared("e", "table", options), PricedStage("g"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: built(tensor_parallel_size=5), "24 query heads, which 5 ranks cannot share"),
        (lambda: built(model="Qwen4"), "unknown model `Qwen4`"),
        (alone, "it prices nothing"),
        (lambda: alone(ExecutorOption("fia", "ascend950")), "`fia` needs the heads of a model"),
        (lambda: alone(ExecutorOption("fia_split", "auto")), "`fia_split` belongs to `fia`"),
    ],
)
def test_what_cannot_be_built(build: Callable[[], object], message: str) -> None:
    with pytest.raises(RunError) as caught:
        build()
    assert message in caught.value.message
