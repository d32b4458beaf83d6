"""All forms in which a step comes have one price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serq
from serq.errors import DataError, RunError
from serq.ir.nodes import Number
from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.executor import (
    BatchTotals,
    DecodeTotals,
    Evidence,
    Executor,
    OperatorPrice,
    OutsideRange,
    TotalsExecutor,
)
from serq.kernels.registry import PricedStage, create_executor
from serq.kernels.step_batch import BatchRow, StepBatch

STAGE = PricedStage("gpu", max_num_seqs=64, max_num_batched_tokens=4096, max_model_len=65536)


def built(**options: str | int | float) -> Executor:
    given = {"model": "Qwen3.5-27B", "device": "950PR_9589", **options}
    declared = Declared("e", "roofline", tuple(ExecutorOption(name, value) for name, value in given.items()))
    return create_executor(declared, STAGE).executor


def decodes(contexts: list[int]) -> StepBatch:
    return StepBatch.of(tuple(BatchRow(str(i), 1, c, 1, 0, True) for i, c in enumerate(contexts)))


def totals(contexts: list[int]) -> DecodeTotals:
    return DecodeTotals(len(contexts), sum(contexts), min(contexts), max(contexts))


CONTEXTS = st.lists(st.integers(1, 40_000), min_size=1, max_size=64)


FORMS: list[dict[str, str]] = [
    {},
    {"model": "Qwen3-8B", "layout": "vllm_ascend"},
    {"model": "Qwen3-30B-A3B", "layout": "sglang", "attention": "mixed"},
    {"layout": "vllm_ascend", "attention_table": "ascend950", "attention": "auto"},
]


@pytest.mark.parametrize("options", FORMS)
@settings(max_examples=50, deadline=None)
@given(contexts=CONTEXTS)
def test_decodes_need_no_rows(options: dict[str, str], contexts: list[int]) -> None:
    executor = built(**options)
    assert executor.price_decodes(totals(contexts)) == executor.price(decodes(contexts))


@settings(max_examples=50, deadline=None)
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


def attention(executor: Executor, batch: StepBatch) -> float:
    return next(price.seconds for price in executor.price(batch).operators if price.operator == "attention")


MIXED = StepBatch.of((*decodes([8191] * 23).rows, BatchRow("p", 3968, 4224, 8192, 0, False)))


def test_one_attention_call_costs_more_than_two_on_950_and_about_the_same_elsewhere() -> None:
    on_950 = [attention(built(attention=form), MIXED) for form in ("mixed", "split", "auto")]
    assert on_950[0] > 1.1 * on_950[1] and on_950[2] == on_950[1]
    on_h200 = [attention(built(attention=form, device="H200"), MIXED) for form in ("mixed", "split")]
    assert on_h200[1] - on_h200[0] == pytest.approx(16 * 3e-6)  # a call more in each of 16 layers


def test_two_calls_are_the_default_on_950_alone() -> None:
    assert attention(built(), MIXED) == attention(built(attention="split"), MIXED)
    h200 = built(device="H200"), built(device="H200", attention="mixed")
    assert attention(h200[0], MIXED) == attention(h200[1], MIXED)


def test_a_rule_decides_for_every_step() -> None:
    """Two calls where decodes are as many as 23: the rule reads the totals of the step."""
    seen = []

    def many(totals: BatchTotals) -> float:
        seen.append(totals)
        return totals.decoders >= 23

    option = ExecutorOption("attention", Number(1.0))
    given = (ExecutorOption("model", "Qwen3.5-27B"), ExecutorOption("device", "950PR_9589"), option)
    executor = create_executor(Declared("e", "roofline", given), STAGE, {"attention": many}).executor
    assert attention(executor, MIXED) == attention(built(attention="split"), MIXED)
    assert seen[-1] == BatchTotals.of(MIXED)
    fewer = StepBatch.of(MIXED.rows[1:])
    assert attention(executor, fewer) == attention(built(attention="mixed"), fewer)


def test_steps_are_padded_to_the_captured_graph() -> None:
    """A 950 captures 4 of the sizes 1, 2, 4, 8, 16, …, 64, evenly spaced: 1, 8, 40, 64 (V-073)."""
    laid, plain = built(layout="vllm_ascend"), built()
    several = decodes([100] * 41)
    mlps = [next(p.seconds for p in e.price(several).operators if p.operator == "norms_and_activations")
            for e in (laid, plain)]  # fmt: skip
    assert mlps[0] / mlps[1] == pytest.approx(64 / 41)


@pytest.mark.parametrize("whose", ["host", "scheduler", "tokenizer", "api_server"])
def test_overheads_are_off_until_they_are_said(whose: str) -> None:
    name = f"{whose}_overhead"
    count = {"host_overhead": 1, "tokenizer_overhead": 3968}.get(name, 24)
    without, price = built().price(MIXED), built(**{name: 0.25}).price(MIXED)
    assert price.operators == (*without.operators, OperatorPrice(name, 0.25 * count, Evidence.ASSUMED))


@pytest.mark.parametrize(
    ("options", "message", "help_"),
    [
        ({"device": "910B4"}, "take 50.1 GiB a rank, and Ascend910B4 has 32.0 GiB",
         "`tensor_parallel_size 2` holds them, and so does `weight_dtype int8` as it is"),
        ({"device": "950DT_9571", "tensor_parallel_size": 2}, "no source states the link",
         "say it: `link_bandwidth"),
        ({"layout": "vllm_ascend", "device": "H200"}, "which is no Ascend device", ""),
        ({"weight_dtype": "float8", "device": "910B1"}, "Ascend910B1 has no float8 arithmetic", ""),
        ({"model": "Qwen3-30B-A3B", "enable_expert_parallel": True, "data_parallel_size": 3},
         "128 experts, which 3 ranks cannot share", ""),
    ],
)  # fmt: skip
def test_what_does_not_fit(options: dict[str, str | int], message: str, help_: str) -> None:
    with pytest.raises(RunError) as caught:
        built(**options)
    assert message in caught.value.message
    assert help_ in str(caught.value)


def test_figures_of_the_program_replace_those_of_the_catalogue() -> None:
    """Twice the bandwidth and twice the peak: half the time of what is no call's overhead."""
    base = {"kernel_overhead": 0.0, "peak_operations": 1e14, "memory_bandwidth": 1e12}
    fast = {"kernel_overhead": 0.0, "peak_operations": 2e14, "memory_bandwidth": 2e12}
    slow_price, fast_price = (built(**figures, device="H200").price(MIXED) for figures in (base, fast))
    assert slow_price.seconds == pytest.approx(2 * fast_price.seconds)


CALIBRATION = """schema = 1
linear = { efficiency = 0.5, tokens = [1, 64] }
[provenance]
device = "950"
measured_by = "us"
software = { }
"""


def test_a_calibrated_efficiency_is_fitted_within_its_range(tmp_path: Path) -> None:
    (tmp_path / "fit.toml").write_text(CALIBRATION)
    names = {"model": "Qwen3.5-27B", "device": "950PR_9589"}

    def mlp(batch: StepBatch, **options: str | float) -> OperatorPrice:
        given = tuple(ExecutorOption(name, value) for name, value in (names | options).items())
        built = create_executor(Declared("e", "roofline", given), replace(STAGE, folder=tmp_path))
        return next(price for price in built.executor.price(batch).operators if price.operator == "mlp")

    inside, beyond = mlp(decodes([10]), calibration="fit.toml"), mlp(MIXED, calibration="fit.toml")
    assert (inside.evidence, beyond.evidence) == (Evidence.FITTED, Evidence.EXTRAPOLATED)
    assert beyond.outside == (OutsideRange("tokens", 3991, 1, 64),)
    assert inside.seconds == mlp(decodes([10]), linear_efficiency=0.5).seconds
    (tmp_path / "fit.toml").write_text(CALIBRATION.replace("0.5", "5"))
    with pytest.raises(DataError, match="an efficiency is between"):
        mlp(MIXED, calibration="fit.toml")
    (tmp_path / "fit.toml").write_text(CALIBRATION.replace("linear", "lineal"))
    with pytest.raises(DataError, match=r"fit.toml:2: Object contains unknown field"):
        mlp(MIXED, calibration="fit.toml")


PROGRAM = """
executor chip : roofline {{
  model "Qwen3-8B"; device "950PR_9589"; host_overhead {overhead};
}}
stage npu : vllm {{
  num_gpu_blocks 900; max_model_len 4096; max_num_batched_tokens 512; async_scheduling false; cost via chip;
}}
workload {{ arrive batch(2); }}
session {{ request r on npu (400, 3); observe e2e = e2e(r); }}
run {{ horizon 100; }}
"""


def seconds_of_host(overhead: str) -> float:
    prices = serq.run(serq.compile(source=PROGRAM.format(overhead=overhead))).to_dict()["prices"]
    return float(sum(prices[0]["operators"]["host_overhead"].values()))


def test_the_overhead_of_the_host_may_depend_on_the_step() -> None:
    """Four steps: 512 tokens of prompts, 288 beside a decode, two decodes, and one alone."""
    mixed = "decoders > 0 && prefilled > 0 ? 0.25 : 0"
    assert seconds_of_host(mixed) == 0.25
    assert seconds_of_host("0.25 * (1 + 1)") == seconds_of_host("0.5 + 0 * tokens")
    assert seconds_of_host("prefilled / 1000") == pytest.approx(0.8)


def test_an_overhead_below_zero_ends_the_run() -> None:
    with pytest.raises(RunError, match="`host_overhead` is -2 in a step: it must be 0 or more seconds"):
        seconds_of_host("-scheduled")
    with pytest.raises(serq.CompileError, match="must be at least 0, not -2"):
        seconds_of_host("-2")
    with pytest.raises(serq.CompileError, match="takes a number, and a string is none"):
        seconds_of_host('"fast"')
