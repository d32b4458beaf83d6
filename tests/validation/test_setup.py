"""Where the settings of a replay come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serq.errors import DataError, UsageError
from serq.validation.reading import read_run
from serq.validation.setup import Setup, set_up
from tests.kernels.measured.tiny_tables import CONFIG, EXPERTS_CONFIG, write_tables
from tests.validation.runs import META, request, write_model, write_run

LINKS: dict[str, Any] = {"link_bw": 16, "link_latency": 20000}


def prepared(
    folder: Path,
    meta: dict[str, Any] | None = META,
    model: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    **given: Any,
) -> Setup:
    tables, needed = write_model(folder, model)
    run = write_run(folder / "run", [request(20, 5), request(30, 4)], meta, **(cluster or {}))
    return set_up(read_run(run), tables, {**needed, **given})


def settings(setup: Setup) -> dict[str, tuple[str, str]]:
    return {setting.name: (setting.value, setting.source) for setting in setup.settings}


def test_given_then_stated_then_default(tmp_path: Path) -> None:
    setup = prepared(tmp_path, max_num_batched_tokens=32)
    found = settings(setup)
    assert found["max_num_batched_tokens"] == ("32", "given")
    assert found["max_num_seqs"] == ("8", "meta.json, engine_kwargs.max_num_seqs")
    assert found["async_scheduling"] == ("True", "default of vLLM")
    assert found["max_model_len"] == ("34", "longest request")
    config = setup.config
    assert (config.max_num_batched_tokens, config.max_num_seqs, config.max_model_len) == (32, 8, 34)
    assert config.async_scheduling and config.enable_prefix_caching and config.scheduler_reserve_full_isl


def test_graphs(tmp_path: Path) -> None:
    eager = prepared(tmp_path / "1")
    assert settings(eager)["enforce_eager"] == ("True", "given")
    default = prepared(tmp_path / "2", enforce_eager=None)
    # Twice 8 sequences: 1, 2, 4, 8, 16.
    assert settings(default)["cudagraph_capture_sizes"] == ("5 sizes to 16", "default of vLLM")
    meta = META | {"resolved_config": {"compilation_config": {"cudagraph_capture_sizes": [2, 64]}}}
    stated = settings(prepared(tmp_path / "3", meta, enforce_eager=None))["cudagraph_capture_sizes"]
    assert stated[0] == "2 sizes to 64" and stated[1].startswith("meta.json")
    meta = META | {"resolved_config": {"compilation_config": {"cudagraph_capture_sizes": ["x"]}}}
    with pytest.raises(DataError, match="cudagraph_capture_sizes is not a list"):
        prepared(tmp_path / "4", meta, enforce_eager=None)


def test_blocks_stated_or_left_by_the_weights_or_never_short(tmp_path: Path) -> None:
    meta = META | {"kv_cache": {"num_gpu_blocks": 77}}
    assert settings(prepared(tmp_path / "1", meta))["num_gpu_blocks"][0] == "77"
    # A token takes 2 * 10 layers * 2 heads * 25 * 2 bytes = 2000, a block 32000; a GiB less the weights.
    layer = (2 * 4 + 2 * 2) * 25 * 100 + 3 * 100 * 300 + 2 * 100
    weights = 2 * (10 * layer + 2 * 1000 * 100 + 100)
    node = {"instances": [{"npu_mem": {"mem_size": 2, "mem_util": 0.5}}]}
    found = settings(prepared(tmp_path / "2", cluster={"nodes": [node]}))["num_gpu_blocks"]
    assert found[0] == str((2**30 - weights) // 32000)
    assert found[1] == "config.json of LLMServingSim, npu_mem, less the weights"
    # 25 and 34 tokens: 2 and 3 blocks, one to spare, and the one that the pool keeps.
    assert settings(prepared(tmp_path / "3"))["num_gpu_blocks"] == ("7", "assumed: memory never short")


def test_the_published_link_is_taken_as_published_and_said_so(tmp_path: Path) -> None:
    two = {"tensor_parallel_size": 2}
    tables, needed = write_model(tmp_path)
    write_tables(tables, degree=2)
    run = read_run(write_run(tmp_path / "run", [request()], META, **LINKS))
    setup = set_up(run, tables, needed | two)
    assert settings(setup)["link_bandwidth"] == ("1.6e+10", "config.json of LLMServingSim, link_bw")
    assert any("the link is as published" in note for note in setup.notes)
    given = set_up(run, tables, needed | two | {"link_bandwidth": 1e9, "link_latency": 0.0})
    assert settings(given)["link_latency"] == ("0", "given")
    assert not any("published" in note for note in given.notes)
    with pytest.raises(DataError, match="give its bandwidth and latency"):
        set_up(read_run(write_run(tmp_path / "other", [request()])), tables, needed | two)


def test_bytes_of_the_expert_exchange(tmp_path: Path) -> None:
    ranks = {"data_parallel_size": 2, "enable_expert_parallel": True}
    published = prepared(tmp_path / "1", model=EXPERTS_CONFIG, cluster=LINKS, **ranks)
    assert settings(published)["expert_bytes"] == ("0.5", "as LLMServingSim charges them")
    whole = prepared(tmp_path / "2", model=EXPERTS_CONFIG, cluster=LINKS, expert_bytes=1.0, **ranks)
    assert settings(whole)["expert_bytes"] == ("1", "given")
    own = {"link_bandwidth": 1e9, "link_latency": 0.0}
    given = prepared(tmp_path / "3", model=EXPERTS_CONFIG, cluster=LINKS, **ranks, **own)
    assert settings(given)["expert_bytes"] == ("1", "all of them")


def test_given_settings_that_mean_nothing_here(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="link bandwidth was given, and this run exchanges nothing"):
        prepared(tmp_path, link_bandwidth=1e9)
    with pytest.raises(UsageError, match="expert bytes was given"):
        prepared(tmp_path, expert_bytes=0.5)
    with pytest.raises(UsageError, match="prefixes were given, and the engine of this run caches none"):
        prepared(tmp_path, prefixes=tmp_path / "x.csv", enable_prefix_caching=False)


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({"model": "nobody/knows-1b"}, "nobody/knows-1b is not in the catalogue"),
        ({}, "says no model"),
    ],
)
def test_a_model_that_is_not_known(tmp_path: Path, meta: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        prepared(tmp_path, meta, model_config=None)


def test_a_configuration_file_that_lacks_something(tmp_path: Path) -> None:
    config = {key: value for key, value in CONFIG.items() if key != "hidden_size"}
    with pytest.raises(DataError, match=r"model\.json: `hidden_size` must be"):
        prepared(tmp_path, model=config)


def test_tables_of_another_model_or_device(tmp_path: Path) -> None:
    tables, needed = write_model(tmp_path)
    meta = tables / "meta.yaml"
    run = read_run(
        write_run(tmp_path / "run", [request()], META | {"hardware": {"device_name": "another GPU"}})
    )
    assert set_up(run, tables, needed).notes[0] == "device: another GPU in the run, a GPU in the tables"
    meta.write_text("model: Qwen/Qwen3-32B\n")
    other = "tables of Qwen/Qwen3-32B; the run is of {}"
    with pytest.raises(DataError, match=other.format("ours")):
        set_up(run, tables, needed | {"model": "ours"})
    with pytest.raises(DataError, match="tables of Qwen/Qwen3-32B; the run is of tiny"):
        set_up(run, tables, needed)


@pytest.mark.parametrize(
    ("resolved", "said"),
    [
        ({"model_config": {"quantization": "awq"}}, "quantization"),
        ({"speculative_config": {"method": "ngram"}}, "speculative_config"),
        ({"parallel_config": {"pipeline_parallel_size": 2}}, "pipeline parallelism"),
        ({"scheduler_config": {"max_num_seqs": 0}}, "max_num_seqs is 0"),
        ({"scheduler_config": {"async_scheduling": "yes"}}, "async_scheduling is 'yes'"),
        ({"scheduler_config": {"max_num_seqs": 4096}}, "max_num_batched_tokens must be at least"),
        ({"scheduler_config": {"policy": "lifo"}}, "policy is 'lifo'"),
        ({"model_config": {"max_model_len": 33}}, "a request of 34 tokens"),
        ({"scheduler_config": {"long_prefill_token_threshold": "x"}}, "long_prefill_token_threshold is 'x'"),
    ],
)
def test_what_a_run_states_and_cannot_be_replayed(
    tmp_path: Path, resolved: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        prepared(tmp_path, META | {"resolved_config": resolved})


@pytest.mark.parametrize(("name", "dtype"), [("dtype", "float16"), ("kv_cache_dtype", "fp8")])
def test_a_dtype_of_other_tables(tmp_path: Path, name: str, dtype: str) -> None:
    with pytest.raises(DataError, match=f"{name} {dtype}"):
        prepared(tmp_path, META | {"engine_kwargs": {name: dtype}})
