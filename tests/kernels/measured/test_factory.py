"""`measured` executors as programs declare them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import serq
from serq.errors import DataError, RunError
from serq.ir.serving import Executor as Declared
from serq.ir.serving import ExecutorOption
from serq.kernels.executor import DecodeTotals
from serq.kernels.registry import BuiltExecutor, PricedStage, create_executor
from tests.kernels.measured.tiny_tables import CONFIG, EXPERTS_CONFIG, write_tables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tables(tmp_path / "tables", degree=2)
    write_tables(tmp_path / "tables", {"meta.yaml": "gpu: a GPU\nvllm_version: 0.19.0\ntp_degrees: [1, 2]\n"})
    (tmp_path / "tiny.json").write_text(json.dumps(CONFIG))
    (tmp_path / "experts.json").write_text(json.dumps(EXPERTS_CONFIG))
    return tmp_path


def built(folder: Path, stage: PricedStage | None = None, **options: str | float | bool) -> BuiltExecutor:
    given = {"tables": "tables", "model": "tiny.json", **options}
    declared = Declared("e", "measured", tuple(ExecutorOption(name, value) for name, value in given.items()))
    return create_executor(declared, stage or PricedStage("gpu", folder=folder))


def seconds_of_decodes(executor: BuiltExecutor, count: int) -> float:
    price = executor.executor.price_decodes(DecodeTotals(count, 100 * count, 100, 100))
    assert price is not None
    return price.seconds * 1e6


def test_graphs_are_those_of_the_limits_of_the_stage(folder: Path) -> None:
    # 3 decodes run as a graph of 4 where 4 requests may run (1, 2, 4, 8), as 3 where nothing is captured.
    attention = (10 + 20 * 2 / 3) * 10
    stage = PricedStage("gpu", folder=folder, max_num_seqs=4, max_num_batched_tokens=64)
    assert seconds_of_decodes(built(folder, stage), 3) == pytest.approx(4 * 431 + 3 * 23 + attention)
    eager = built(folder, stage, enforce_eager=True)
    assert seconds_of_decodes(eager, 3) == pytest.approx(3 * 431 + 3 * 23 + attention)
    shown = {setting.name: setting.value for setting in built(folder, stage).settings}
    assert shown["graphs"] == "4 sizes to 8" and shown["skew"] == "none"


def test_links(folder: Path) -> None:
    alone = built(folder, enforce_eager=True)
    pair = built(folder, enforce_eager=True, tensor_parallel_size=2, link_bandwidth=1e8, link_latency=20e-6)
    # One token: 200 bytes, of which 100 pass in each of two phases, twice in ten layers.
    exchanged = 2 * 10 * 2 * (1 + 20)
    assert seconds_of_decodes(pair, 1) == pytest.approx(seconds_of_decodes(alone, 1) + exchanged)


def test_engines_of_the_stage_share_the_experts(folder: Path) -> None:
    stage = PricedStage("gpu", folder=folder, data_parallel_size=2)
    options = {"model": "experts.json", "enable_expert_parallel": True, "enforce_eager": True}
    built(folder, stage, **options, link_bandwidth=1e9, expert_bytes=0.5)
    with pytest.raises(DataError, match="no even shares"):
        built(folder, stage, **options, link_bandwidth=1e9, data_parallel_size=3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "Nobody-1B"}, "unknown model `Nobody-1B`"),
        ({"link_bandwidth": 1e9}, "`link_bandwidth` is given, and the engine exchanges nothing like it"),
        ({"tensor_parallel_size": 2}, "give its bandwidth and latency"),
        ({"tensor_parallel_size": 2, "link_bandwidth": 1e9, "expert_bytes": 0.5}, "`expert_bytes` is given"),
        ({"tensor_parallel_size": 4, "link_bandwidth": 1e9}, "no tables for tensor parallelism 4"),
        ({"tables": "absent"}, "absent: no such folder"),
        ({"model": "absent.json"}, "no such file"),
        ({"model": "list.json"}, "is not a JSON object"),
        ({"model": "Llama-3.1-8B"}, ""),
    ],
)
def test_options_that_cannot_be_met(folder: Path, options: dict[str, str | float], said: str) -> None:
    (folder / "list.json").write_text("[]")
    if not said:
        built(folder, **options)  # the tables of this folder name no model and no shard
        return
    with pytest.raises((RunError, DataError), match=said):
        built(folder, **options)


def test_the_model_is_that_of_the_tables(folder: Path) -> None:
    declared = Declared("e", "measured", (ExecutorOption("tables", "tables"),))
    with pytest.raises(RunError, match="no model that they name"):
        create_executor(declared, PricedStage("gpu", folder=folder))
    meta = folder / "tables" / "meta.yaml"
    meta.write_text(f"model: meta-llama/Llama-3.1-8B\n{meta.read_text()}")
    executor = create_executor(declared, PricedStage("gpu", folder=folder))
    assert executor.settings[1] == ("model", "Llama-3.1-8B", "the tables")


def test_a_program(folder: Path) -> None:
    """16 prompt tokens, 3 outputs: a prefill of 16, then two decodes, as in the replay of a run."""
    program = folder / "engine.sq"
    program.write_text(
        'executor e : measured { tables "tables"; model "tiny.json"; enforce_eager true; }\n'
        "stage gpu : vllm { num_gpu_blocks 20; max_num_seqs 8; max_num_batched_tokens 64;"
        " max_model_len 64; cost via e; }\n"
        "workload { arrive batch(1); }\n"
        "session { request r on gpu (16, 3); observe ttft = ttft(r); observe e2e = e2e(r); }\n"
        "run { horizon 10; }\n"
    )
    report = serq.run(serq.compile(program))
    first, step = 16 * 431 + 23 + 1000, 431 + 23 + 100
    assert report.records.series["ttft"].values == [pytest.approx(first * 1e-6)]
    assert report.records.series["e2e"].values == [pytest.approx((first + 2 * step) * 1e-6)]
    assert "measured" in repr(report)
