"""Runs recorded inside the engine: a folder with `requests.jsonl`, `meta.json`, and more where there is more.

`arrival_time` is the client's wall clock, every other stamp the engine's monotonic one; the smallest distance
between taking in and arrival is taken for the offset of the clocks. `first_token_ts` and `last_token_ts` are
stamped when the output of a step is processed.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from serq.errors import DataError
from serq.source import read_text
from serq.validation.fields import count, dig, number, parse_object, read_object
from serq.validation.measured_run import MeasuredRequest, MeasuredRun, Stated

_FROM_META = {
    "model": (("model",), ("engine_kwargs", "model")),
    "engine_version": (("vllm_version",),),
    "tensor_parallel_size": (("engine_kwargs", "tensor_parallel_size"),),
    "data_parallel_size": (("engine_kwargs", "data_parallel_size"),),
    "enable_expert_parallel": (("engine_kwargs", "enable_expert_parallel"),),
    "pipeline_parallel_size": (("resolved_config", "parallel_config", "pipeline_parallel_size"),),
    "max_num_seqs": (
        ("resolved_config", "scheduler_config", "max_num_seqs"),
        ("engine_kwargs", "max_num_seqs"),
    ),
    "max_num_batched_tokens": (
        ("resolved_config", "scheduler_config", "max_num_batched_tokens"),
        ("engine_kwargs", "max_num_batched_tokens"),
    ),
    "max_model_len": (
        ("resolved_config", "model_config", "max_model_len"),
        ("engine_kwargs", "max_model_len"),
    ),
    "dtype": (("engine_kwargs", "dtype"),),
    "kv_cache_dtype": (("engine_kwargs", "kv_cache_dtype"),),
    "device_name": (("hardware", "device_name"),),
    "quantization": (("resolved_config", "model_config", "quantization"),),
    "num_gpu_blocks": (
        ("kv_cache", "num_gpu_blocks"),
        ("resolved_config", "cache_config", "num_gpu_blocks"),
    ),
    "block_size": (("kv_cache", "block_size"), ("resolved_config", "cache_config", "block_size")),
    "enable_prefix_caching": (
        ("kv_cache", "enable_prefix_caching"),
        ("resolved_config", "cache_config", "enable_prefix_caching"),
    ),
    "async_scheduling": (("resolved_config", "scheduler_config", "async_scheduling"),),
    "enable_chunked_prefill": (("resolved_config", "scheduler_config", "enable_chunked_prefill"),),
    "policy": (("resolved_config", "scheduler_config", "policy"),),
    "long_prefill_token_threshold": (
        ("resolved_config", "scheduler_config", "long_prefill_token_threshold"),
    ),
    "scheduler_reserve_full_isl": (("resolved_config", "scheduler_config", "scheduler_reserve_full_isl"),),
    "speculative_config": (("resolved_config", "speculative_config"),),
    "kv_transfer_config": (("resolved_config", "kv_transfer_config"),),
    "enforce_eager": (("resolved_config", "model_config", "enforce_eager"),),
    "cudagraph_capture_sizes": (("resolved_config", "compilation_config", "cudagraph_capture_sizes"),),
}
"""Engine options and the places of `meta.json` that state them, the more reliable one first."""


def read_engine_record(folder: Path) -> MeasuredRun:
    """Read a folder. Raises DataError naming file and line."""
    requests = _read_requests(folder / "requests.jsonl")
    stated: dict[str, Stated] = {}
    notes: tuple[str, ...] = ()
    if (folder / "meta.json").exists():
        meta = read_object(folder / "meta.json", "measured run")
        stated |= _stated(meta)
        expected = dig(meta, "num_requests")
        if isinstance(expected, int) and expected != len(requests):
            notes = (f"requests.jsonl has {len(requests)} requests, meta.json says {expected}",)
    if (folder / "config.json").exists():
        stated |= _stated_by_simulator(read_object(folder / "config.json", "measured run"))
    rates = _read_rates(folder / "timeseries.csv") if (folder / "timeseries.csv").exists() else ()
    return MeasuredRun(folder, requests, stated, rates, notes=notes)


def _read_requests(path: Path) -> tuple[MeasuredRequest, ...]:
    entries: list[tuple[int, int, float, float, float, float]] = []
    for line, text in enumerate(read_text(path, "measured run").splitlines(), 1):
        if text.strip():
            entries.append(_read_request(parse_object(text, str(path), line), f"{path}:{line}"))
    if not entries:
        raise DataError(f"{path}: no request")
    offset = min(queued - arrival for _, _, arrival, queued, _, _ in entries)
    start = min(arrival for _, _, arrival, _, _, _ in entries) + offset
    return tuple(
        MeasuredRequest(prompt, output, arrival + offset - start, queued - start, first - start, last - start)
        for prompt, output, arrival, queued, first, last in entries
    )


def _read_request(entry: dict[str, Any], place: str) -> tuple[int, int, float, float, float, float]:
    prompt, output = count(entry, "input_toks", place), count(entry, "output_toks", place)
    stamps = [number(entry, name, place) for name in ("queued_ts", "first_token_ts", "last_token_ts")]
    queued, first, last = stamps
    if not queued <= first <= last:
        raise DataError(f"{place}: queued_ts {queued}, first_token_ts {first}, last_token_ts {last} run back")
    return prompt, output, number(entry, "arrival_time", place), queued, first, last


def _read_rates(path: Path) -> tuple[tuple[float, float], ...]:
    """(end of a second, tokens a second) of `timeseries.csv`."""
    lines = read_text(path, "measured run").splitlines()
    reader = csv.DictReader(lines)
    rates = []
    for row in reader:
        place = f"{path}:{reader.line_num}"
        try:
            rates.append((float(row["t"]), float(row["gen_throughput"])))
        except (KeyError, TypeError, ValueError):
            raise DataError(f"{place}: `t` and `gen_throughput` must be numbers") from None
    return tuple(rates)


def _stated(meta: dict[str, Any]) -> dict[str, Stated]:
    stated = {}
    for name, places in _FROM_META.items():
        for place in places:
            value = dig(meta, *place)
            if value is not None:
                stated[name] = Stated(value, f"meta.json, {'.'.join(place)}")
                break
    return stated


def _stated_by_simulator(config: dict[str, Any]) -> dict[str, Stated]:
    """What a cluster file of LLMServingSim states: the links, in GB/s and ns, and the memory of a device."""
    stated = {}
    source = "config.json of LLMServingSim"
    bandwidth, latency = dig(config, "link_bw"), dig(config, "link_latency")
    if _positive(bandwidth) and _positive(latency):
        stated["link_bandwidth"] = Stated(bandwidth * 1e9, f"{source}, link_bw")
        stated["link_latency"] = Stated(latency * 1e-9, f"{source}, link_latency, a ring phase")
    nodes = dig(config, "nodes")
    instances = dig(nodes[0], "instances") if isinstance(nodes, list) and nodes else None
    memory = dig(instances[0], "npu_mem") if isinstance(instances, list) and instances else None
    size, share = dig(memory, "mem_size"), dig(memory, "mem_util")
    if _positive(size) and _positive(share):
        stated["kv_and_weight_bytes"] = Stated(size * 2**30 * share, f"{source}, npu_mem")
    return stated


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
