"""All forms in which a step comes have one price."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serq.errors import RunError
from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.executor import BatchTotals, DecodeTotals, Evidence, Executor, TotalsExecutor
from serq.kernels.registry import PricedStage, create_executor
from serq.kernels.step_batch import BatchRow, StepBatch


def built(**options: str | int | float) -> Executor:
    given = {"model": "Qwen3.5-27B", "device": "950PR_9589", **options}
    declared = Declared("e", "roofline", tuple(ExecutorOption(name, value) for name, value in given.items()))
    return create_executor(declared, PricedStage("gpu", max_num_seqs=64, max_model_len=4096)).executor


def decodes(contexts: list[int]) -> StepBatch:
    return StepBatch.of(tuple(BatchRow(str(i), 1, c, 1, 0, True) for i, c in enumerate(contexts)))


def totals(contexts: list[int]) -> DecodeTotals:
    return DecodeTotals(len(contexts), sum(contexts), min(contexts), max(contexts))


CONTEXTS = st.lists(st.integers(1, 40_000), min_size=1, max_size=64)


@pytest.mark.parametrize("model", ["Qwen3-8B", "Qwen3.5-27B", "Qwen3-30B-A3B"])
@given(contexts=CONTEXTS)
def test_decodes_need_no_rows(model: str, contexts: list[int]) -> None:
    executor = built(model=model)
    assert executor.price_decodes(totals(contexts)) == executor.price(decodes(contexts))


@given(CONTEXTS, st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 4000)), max_size=4))
def test_totals_price_like_the_rows(contexts: list[int], prefills: list[tuple[int, int]]) -> None:
    executor = built()
    assert isinstance(executor, TotalsExecutor)
    rows = decodes(contexts).rows + tuple(BatchRow("p", q, c, 99_999, 0, False) for c, q in prefills)
    batch = StepBatch.of(rows)
    of_totals, of_rows = executor.price_totals(BatchTotals.of(batch)), executor.price(batch)
    assert of_totals.seconds == pytest.approx(of_rows.seconds, rel=1e-12)
    names = [[price.operator for price in found.operators] for found in (of_totals, of_rows)]
    assert names[0] == names[1]


def test_operators_add_up_and_nothing_is_more_than_assumed() -> None:
    price = built().price(decodes([100, 200]))
    assert {operator.evidence for operator in price.operators} == {Evidence.ASSUMED}
    assert price.seconds == sum(operator.seconds for operator in price.operators)


@pytest.mark.parametrize(
    ("options", "message", "help_"),
    [
        ({"model": "Qwen3-8b"}, "executor `e`: unknown model `Qwen3-8b`", "did you mean `Qwen3-8B`?"),
        ({"device": "H300"}, "executor `e`: unknown device `H300`", "did you mean `H200`?"),
        ({"tensor_parallel_size": 5}, "24 query heads, which 5 ranks cannot share", "may be 1, 2, 4, 8"),
    ],
)
def test_what_cannot_be_built(options: dict[str, str | int], message: str, help_: str) -> None:
    with pytest.raises(RunError) as caught:
        built(**options)
    assert message in caught.value.message and caught.value.diagnostic is not None
    assert help_ in (caught.value.diagnostic.help or "")
