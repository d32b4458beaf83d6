"""From what a program says about an engine to the configuration that runs (S-002 to S-004, S-110)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from serq.errors import RunError
from serq.ir.engine_options import ENGINE_OPTIONS
from serq.ir.serving import KVCacheGroup, Layout, Vllm
from serq.kernels.registry import CacheRequest, PricedStage
from serq.runtime.request_records import Option
from serq.runtime.serving.layouts import layout_engine, layout_text
from serq.runtime.vllm.config import EngineConfig, KVTransferConfig, SpeculativeConfig
from serq.runtime.vllm.kv_cache_spec import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from serq.runtime.vllm.kv_cache_spec import KVCacheGroup as GroupOfLayers

DEFAULT_BLOCK_SIZE = 16
_ASYNC_DRAFTERS = ("ngram_gpu",)
"""Drafters besides those of the eagle kind with which async scheduling is on by default."""

_ASYNC_IF_ASKED = ("draft_model",)
"""Drafters with which async scheduling is possible and off by default."""

_PLAIN_OPTIONS = (
    "max_num_batched_tokens",
    "max_num_scheduled_tokens",
    "max_num_seqs",
    "max_model_len",
    "num_gpu_blocks",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "long_prefill_token_threshold",
    "scheduler_reserve_full_isl",
    "watermark",
    "prefix_match_unit",
    "retention_interval",
    "prefill_schedule_interval",
)
"""Options that the configuration takes as they are; what is not written has its default there."""


class ResolvedEngine(msgspec.Struct, frozen=True):
    """An engine with every option decided.

    ``acceptance[i]`` is the chance that draft i is taken, given those before it; drafts beyond are not.
    """

    config: EngineConfig
    options: tuple[Option, ...]
    acceptance: tuple[float, ...] = ()
    connector: str | None = None


def resolve(name: str, declared: Vllm) -> ResolvedEngine:
    """Decide every option of stage ``name``. Raises RunError for what vLLM would refuse (S-003)."""
    speculative = _speculative(declared)
    given: dict[str, Any] = {
        option: value for option in _PLAIN_OPTIONS if (value := getattr(declared, option)) is not None
    }
    try:
        config = EngineConfig(
            **given,
            async_scheduling=_async_scheduling(declared, speculative),
            policy="priority" if declared.waiting.kind == "priority" else "fcfs",
            groups=_groups(declared),
            speculative=speculative,
            kv_transfer=_kv_transfer(declared),
        )
    except ValueError as error:
        raise RunError(f"stage `{name}`: {error}", code="engine-options") from None
    acceptance = () if declared.speculative is None else declared.speculative.accept
    return ResolvedEngine(config, _listed(declared, config), acceptance, declared.kv_connector)


def _kv_transfer(declared: Vllm) -> KVTransferConfig | None:
    """What the engine is to its connector. Raises ValueError for a connector without a role."""
    if declared.kv_connector is None:
        return None
    if declared.kv_role is None:
        raise ValueError("`kv_connector` needs `kv_role`")
    return KVTransferConfig(declared.kv_role, declared.kv_load_failure_policy or "fail")


def priced_stage(name: str, declared: Vllm, resolved: ResolvedEngine, folder: Path) -> PricedStage:
    """The stage as an executor sees it."""
    config, speculative = resolved.config, resolved.config.speculative
    return PricedStage(
        name=name,
        folder=folder,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=config.max_model_len,
        num_gpu_blocks=declared.num_gpu_blocks,
        speculative_method=None if speculative is None else speculative.method,
        num_speculative_tokens=0 if speculative is None else speculative.num_speculative_tokens,
        chunked_prefill=config.enable_chunked_prefill,
        data_parallel_size=declared.data_parallel_size or 1,
        layout=None if declared.layout == Layout() else layout_engine(declared.layout, config),
    )


def cache_request(declared: Vllm) -> CacheRequest:
    """What an executor must know to compute the blocks of the KV cache."""
    full = [group.block_size for group in declared.groups if group.kind == "full" and group.block_size]
    utilization = declared.gpu_memory_utilization
    default = ENGINE_OPTIONS["gpu_memory_utilization"].default
    assert isinstance(default, float)
    return CacheRequest(
        gpu_memory_utilization=default if utilization is None else utilization,
        block_size=full[0] if full else declared.block_size or DEFAULT_BLOCK_SIZE,
        state_groups=sum(group.kind == "mamba" for group in declared.groups),
    )


def _speculative(declared: Vllm) -> SpeculativeConfig | None:
    given = declared.speculative
    return None if given is None else SpeculativeConfig(given.method, given.k, given.per_batch_size or None)


def _async_scheduling(declared: Vllm, speculative: SpeculativeConfig | None) -> bool:
    """On, unless the drafter forbids it. Raises ValueError where it is asked for and cannot be."""
    allowed = speculative is None or speculative.uses_eagle or speculative.method in _ASYNC_DRAFTERS
    if declared.async_scheduling is None:
        return allowed
    if declared.async_scheduling and speculative is not None and not allowed:
        if speculative.method in _ASYNC_IF_ASKED:
            return True
        raise ValueError(
            f"async_scheduling does not go with `{speculative.method}` speculation: "
            "write `async_scheduling false`"
        )
    return declared.async_scheduling


def _groups(declared: Vllm) -> tuple[GroupOfLayers, ...]:
    size = DEFAULT_BLOCK_SIZE if declared.block_size is None else declared.block_size
    if not declared.groups:
        return (GroupOfLayers(FullAttentionSpec(size)),)
    return tuple(
        GroupOfLayers(_spec(group, size, declared.max_model_len), group.eagle) for group in declared.groups
    )


def _spec(group: KVCacheGroup, default_size: int, max_model_len: int) -> KVCacheSpec:
    size = default_size if group.block_size is None else group.block_size
    match group.kind:
        case "full":
            return FullAttentionSpec(size)
        case "sliding":
            return SlidingWindowSpec(size, _needed(group.window, "group sliding", "window"))
        case "chunked_local":
            return ChunkedLocalAttentionSpec(size, _needed(group.chunk, "group chunked_local", "chunk"))
        case "mamba":
            state = max_model_len if group.block_size is None else group.block_size
            return MambaSpec(state, group.mode or "none", group.num_speculative_blocks)


def _needed(value: int | None, where: str, option: str) -> int:
    if value is None or value < 1:
        raise ValueError(f"`{where}` needs `{option}`, at least 1 token")
    return value


def _listed(declared: Vllm, config: EngineConfig) -> tuple[Option, ...]:
    """Every option as it was resolved, in the order in which the report prints them."""
    options: list[Option] = [(name, getattr(config, name)) for name in _PLAIN_OPTIONS]
    options += [
        ("token_budget", config.token_budget),
        ("async_scheduling", config.async_scheduling),
        ("block_size", config.block_sizes[0]),
        ("hash_block_size", config.block_sizes[1]),
        ("watermark_blocks", config.watermark_blocks),
        ("groups", ", ".join(_group_text(group) for group in config.groups)),
        ("waiting", _waiting_text(declared)),
        ("scheduler", _scheduler_text(declared)),
        ("kv_connector", declared.kv_connector),
        ("kv_role", declared.kv_role),
        ("kv_load_failure_policy", declared.kv_load_failure_policy or "fail"),
        ("speculative", _speculative_text(declared)),
        ("layout", layout_text(declared.layout)),
        ("v2_model_runner", bool(declared.v2_model_runner)),
        ("data_parallel_size", declared.data_parallel_size or 1),
        ("pipeline_parallel_size", declared.pipeline_parallel_size or 1),
    ]
    return tuple(options)


def _group_text(group: GroupOfLayers) -> str:
    match group.spec:
        case FullAttentionSpec(block_size):
            text = f"full(block_size {block_size})"
        case SlidingWindowSpec(block_size, window):
            text = f"sliding(block_size {block_size}, window {window})"
        case ChunkedLocalAttentionSpec(block_size, chunk):
            text = f"chunked_local(block_size {block_size}, chunk {chunk})"
        case MambaSpec(block_size, mode, speculative_blocks):
            extra = f", num_speculative_blocks {speculative_blocks}" if speculative_blocks else ""
            text = f"mamba(block_size {block_size}, mode {mode}{extra})"
    return f"{text} eagle" if group.eagle else text


def _waiting_text(declared: Vllm) -> str:
    waiting = declared.waiting
    if not waiting.options:
        return waiting.kind
    return f"{waiting.kind}({', '.join(f'{option.name} {option.value:g}' for option in waiting.options)})"


def _scheduler_text(declared: Vllm) -> str:
    name = declared.scheduler or "default"
    given = (
        f"{option.name} {option.value if isinstance(option.value, str) else format(option.value, 'g')}"
        for option in declared.scheduler_options
    )
    return f"{name}({', '.join(given)})" if declared.scheduler_options else name


def _speculative_text(declared: Vllm) -> str | None:
    given = declared.speculative
    if given is None:
        return None
    return f"{given.method}(k {given.k}, accept {', '.join(f'{chance:g}' for chance in given.accept)})"
