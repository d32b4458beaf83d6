"""Tables of others: what is taken over reads as it was, what does not fit is left out and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from serq.errors import DataError, UsageError
from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.calibration.aiconfigurator import read_aiconfigurator
from serq.kernels.calibration.importing import full_grid, write_tables
from serq.kernels.calibration.llmservingsim import read_llmservingsim
from serq.kernels.catalogue.models import models
from serq.kernels.registry import PricedStage, create_executor
from serq.kernels.roofline.shard import Shard
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.kernels.tables.sidecar import Provenance
from tests.shared import shared

LLAMA = "data/measured/RTX4090/Llama-3.1-8B/tables"


def test_the_tick_with_the_most_gaps_goes() -> None:
    points = {(float(x), float(y)): 1.0 for x in range(4) for y in range(3)}
    assert full_grid(points) == (points, 0)
    holed = {at: value for at, value in points.items() if at[0] != 3 or at[1] == 0}
    kept, left_out = full_grid(holed)
    assert left_out == 1 and set(kept) == {(float(x), float(y)) for x in range(3) for y in range(3)}
    assert full_grid({}) == ({}, 0)


_HEADER = (
    "batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,step,window_size,latency"
)
CONTEXT = f"""{_HEADER}
1,128,16,8,128,bfloat16,bfloat16,0,0,0.5
1,256,16,8,128,bfloat16,bfloat16,0,0,0.75
2,256,16,8,128,bfloat16,bfloat16,0,0,9
1,256,16,8,128,bfloat16,fp8,0,0,9
1,256,16,8,128,bfloat16,bfloat16,0,512,9
1,256,32,8,128,bfloat16,bfloat16,0,0,9
"""
GENERATION = f"""{_HEADER}
1,1,16,8,128,bfloat16,bfloat16,127,0,0.02
4,1,16,8,128,bfloat16,bfloat16,127,0,0.04
1,1,16,8,128,bfloat16,bfloat16,1023,0,0.03
4,1,16,8,128,bfloat16,bfloat16,1023,0,0.09
8,1,16,8,128,bfloat16,bfloat16,1023,0,0.2
"""
GDN = """phase,kernel,batch_size,seq_len,num_tokens,num_k_heads,head_k_dim,num_v_heads,head_v_dim,latency
context,causal_conv1d_fn,1,64,64,16,128,16,128,0.1
context,chunk_gated_delta_rule,1,64,64,16,128,16,128,0.3
generation,causal_conv1d_update,4,1,4,16,128,16,128,0.01
generation,fused_recurrent,4,1,4,16,128,16,128,0.02
generation,fused_recurrent,4,1,4,16,128,32,128,9
"""


def test_aiconfigurators_rows_of_one_shard(tmp_path: Path) -> None:
    """Milliseconds become seconds; 1 + 127 keys are 127 computed tokens and the new one."""
    (tmp_path / "context_attention_perf.txt").write_text(CONTEXT)
    (tmp_path / "generation_attention_perf.csv").write_text(GENERATION)
    shard = Shard(models()["Qwen3-0.6B"])
    tables, provenance = read_aiconfigurator(tmp_path, shard, "H200", {"vllm": "0.24"})
    prefills, decodes = tables
    assert prefills.points == {(128.0, 0.0): 0.5e-3, (256.0, 0.0): 0.75e-3}
    assert (prefills.calls, prefills.when) == (28, "prefills_alone")
    assert decodes.points == pytest.approx({
        (1.0, 127.0): 0.02e-3, (4.0, 127.0): 0.04e-3, (1.0, 1023.0): 0.03e-3, (4.0, 1023.0): 0.09e-3
    })  # fmt: skip
    assert decodes.left_out == 1
    write_tables(tables, tmp_path / "out", provenance, {"model": "Qwen3-0.6B"})
    declared = Declared("t", "table", (ExecutorOption("tables", "out"),))
    executor = create_executor(declared, PricedStage("npu", folder=tmp_path)).executor
    batch = StepBatch.of(tuple(BatchRow(str(n), 1, 1023, 1, 0, True) for n in range(4)))
    assert executor.price(batch).seconds == pytest.approx(0.09e-3 * 28)
    with pytest.raises(DataError, match="has tables"):
        write_tables(tables, tmp_path / "out", provenance, {})


def test_kernels_of_a_gated_delta_net_layer_add_up(tmp_path: Path) -> None:
    (tmp_path / "gdn_perf.csv").write_text(GDN)
    shard = Shard(models()["Qwen3.5-0.8B"])
    decodes, prefills = read_aiconfigurator(tmp_path / "gdn_perf.csv", shard, "H200", {})[0]
    assert prefills.points == {(64.0,): pytest.approx(0.4e-3)} and prefills.when == "prefilled"
    assert decodes.points == {(4.0,): pytest.approx(0.03e-3)} and decodes.calls == 18


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("context_attention_perf.csv", CONTEXT.replace("latency", "time"), "no column `latency`"),
        ("context_attention_perf.csv", CONTEXT.replace("0.75", "fast"), ":3: column `latency`: `fast`"),
        ("context_attention_perf.csv", CONTEXT.replace(",16,8,", ",16,4,"), "no rows of Qwen3-0.6B"),
        ("gdn_perf.csv", GDN.replace("generation", "both").replace(",16,128,16,", ",0,0,0,"), "no rows"),
        ("moe_perf.csv", "", "known are context_attention_perf"),
    ],
)
def test_files_that_cannot_be_taken_over(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=complaint):
        read_aiconfigurator(tmp_path / name, Shard(models()["Qwen3-0.6B"]), "H200", {})
    with pytest.raises(DataError, match="none of context"):
        read_aiconfigurator(tmp_path / "nowhere", Shard(models()["Qwen3-0.6B"]), "H200", {})


def test_tables_of_llmservingsim_price_as_the_measured_executor(tmp_path: Path) -> None:
    """At points of their grid, decodes and prefills of Llama-3.1-8B: the same sums, operator by operator."""
    folder = shared(LLAMA)
    tables, provenance, name = read_llmservingsim(folder, None, 1)
    assert name == "Llama-3.1-8B" and "4090" in provenance.device
    write_tables(tables, tmp_path / "t", provenance, {"model": name})
    ours = create_executor(
        Declared("t", "table", (ExecutorOption("tables", "t"),)), PricedStage("gpu", folder=tmp_path)
    ).executor
    options = (ExecutorOption("tables", str(folder)), ExecutorOption("enforce_eager", True))
    theirs = create_executor(Declared("m", "measured", options), PricedStage("gpu")).executor
    steps = [
        tuple(BatchRow(str(n), 1, 1024, 1, 0, True) for n in range(16)),
        (BatchRow("0", 512, 0, 512, 0, False),),
        (*(BatchRow(str(n), 1, 256, 1, 0, True) for n in range(8)), BatchRow("p", 128, 0, 128, 0, False)),
    ]
    for rows in steps:
        batch = StepBatch.of(rows)
        assert ours.price(batch).seconds == pytest.approx(theirs.price(batch).seconds, rel=1e-12)


def test_a_model_has_to_be_known(tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text("model: nobody/knows\n")
    with pytest.raises(UsageError, match="nobody/knows"):
        read_llmservingsim(tmp_path, None, 1)


def test_provenance_is_that_of_the_source() -> None:
    assert Provenance("H200", "AIConfigurator collector", {"vllm": "0.24"}).text() == (
        "H200; vllm 0.24; AIConfigurator collector"
    )
