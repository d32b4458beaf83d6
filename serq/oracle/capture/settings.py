"""A scenario's engine settings as vLLM's own configuration objects, and the scheduler that they give."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ParallelConfig,
    SchedulerConfig,
    SpeculativeConfig,
    VllmConfig,
)
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from vllm.v1.structured_output import StructuredOutputManager

from serq.errors import DataError
from serq.oracle.capture.scenario import Connector, Engine, Group, Scenario, Spec

SCRIPTED_CONNECTOR = "scripted"


class BuiltScheduler:
    """A real scheduler made from a scenario, with the configuration and block hasher that belong to it."""

    def __init__(self, scenario: Scenario) -> None:
        engine = scenario.engine
        kv_cache = _kv_cache_config(engine)
        self.config = _vllm_config(scenario, kv_cache)
        # VllmConfig wants a GPU toolchain for the second model runner; the scheduler only reads the flag.
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1" if engine.v2_model_runner else "0"
        register_all_kvcache_specs(self.config)
        block_size, hash_block_size = kv_cache_utils.resolve_kv_cache_block_sizes(kv_cache, self.config)
        self.scheduler = self.config.scheduler_config.get_scheduler_cls()(
            vllm_config=self.config,
            kv_cache_config=kv_cache,
            structured_output_manager=StructuredOutputManager(self.config),
            block_size=block_size,
            hash_block_size=hash_block_size,
        )
        self.block_hasher = None
        if engine.enable_prefix_caching or scenario.kv_connector is not None:
            hash_function = get_hash_fn_by_name(self.config.cache_config.prefix_caching_hash_algo)
            kv_cache_utils.init_none_hash(hash_function)
            self.block_hasher = kv_cache_utils.get_request_block_hasher(hash_block_size, hash_function)


def environment_of(engine: Engine) -> dict[str, str | None]:
    """The settings that vLLM takes from the environment."""
    interval = engine.retention_interval
    return {
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_PREFIX_CACHE_RETENTION_INTERVAL": None if interval is None else str(interval),
    }


def _kv_cache_config(engine: Engine) -> KVCacheConfig:
    return KVCacheConfig(
        num_blocks=engine.num_gpu_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[
            KVCacheGroupSpec(
                [group.name or f"{group.kind}.{index}"],
                _group_spec(group, engine.max_model_len),
                is_eagle_group=group.eagle,
            )
            for index, group in enumerate(engine.groups)
        ],
    )


def _group_spec(group: Group, max_model_len: int) -> KVCacheSpec:
    """The group's spec with tensors of one element: the scheduler counts blocks, not bytes."""
    block_size = group.resolved_block_size(max_model_len)
    attention: dict[str, Any] = {
        "block_size": block_size,
        "num_kv_heads": 1,
        "head_size": 1,
        "dtype": torch.float32,
    }
    match group.kind:
        case "full":
            return FullAttentionSpec(**attention)
        case "sliding":
            return SlidingWindowSpec(sliding_window=group.window, **attention)
        case "chunked_local":
            return ChunkedLocalAttentionSpec(attention_chunk_size=group.chunk, **attention)
        case "mamba":
            return MambaSpec(
                block_size=block_size,
                shapes=((1,),),
                dtypes=(torch.float32,),
                mamba_cache_mode=group.mode,
                num_speculative_blocks=group.num_speculative_blocks,
            )
    raise DataError(f"engine.groups: there is no kind {group.kind!r}")


def _vllm_config(scenario: Scenario, kv_cache: KVCacheConfig) -> VllmConfig:
    engine = scenario.engine
    config = VllmConfig(
        device_config=DeviceConfig("cpu"),
        parallel_config=ParallelConfig(),
        cache_config=_cache_config(engine, kv_cache),
        scheduler_config=_scheduler_config(engine),
        kv_transfer_config=_kv_transfer_config(scenario.kv_connector),
    )
    # Without a device VllmConfig switches the hybrid manager off; the connector factory would then refuse.
    config.scheduler_config.disable_hybrid_kv_cache_manager = False
    config.cache_config.num_gpu_blocks = kv_cache.num_blocks
    config.model_config = _decoder_only_model(engine.max_model_len)
    if scenario.spec is not None:
        config.speculative_config = _speculative_config(scenario.spec)
        config._set_max_num_scheduled_tokens()
    return config


def _cache_config(engine: Engine, kv_cache: KVCacheConfig) -> CacheConfig:
    mamba_modes = [group.mode for group in engine.groups if group.kind == "mamba"]
    return CacheConfig(
        block_size=min(group.kv_cache_spec.block_size for group in kv_cache.kv_cache_groups),  # S-110
        enable_prefix_caching=engine.enable_prefix_caching,
        prefix_match_unit=engine.prefix_match_unit,
        mamba_cache_mode=mamba_modes[0] if mamba_modes else "none",
    )


def _scheduler_config(engine: Engine) -> SchedulerConfig:
    return SchedulerConfig(
        is_encoder_decoder=False,
        scheduler_reserve_full_isl=engine.reserve_full_isl,
        **{
            name: getattr(engine, name)
            for name in (
                "max_model_len",
                "max_num_batched_tokens",
                "max_num_scheduled_tokens",
                "max_num_seqs",
                "policy",
                "enable_chunked_prefill",
                "long_prefill_token_threshold",
                "async_scheduling",
                "watermark",
                "prefill_schedule_interval",
            )
        },
    )


def _kv_transfer_config(connector: Connector | None) -> KVTransferConfig | None:
    if connector is None:
        return None
    scripted = connector.name == SCRIPTED_CONNECTOR
    return KVTransferConfig(
        kv_connector="ScriptedConnector" if scripted else connector.name,
        kv_connector_module_path="serq.oracle.capture.connector" if scripted else None,
        kv_role=connector.role,
        kv_load_failure_policy=connector.load_failure_policy,
    )


def _decoder_only_model(max_model_len: int) -> SimpleNamespace:
    """What the scheduler reads of a model: a text-only decoder of this length."""
    return SimpleNamespace(
        max_model_len=max_model_len,
        runner_type="generate",
        skip_tokenizer_init=True,
        is_encoder_decoder=False,
        is_diffusion=False,
        is_multimodal_model=False,
        enable_return_routed_experts=False,
    )


def _speculative_config(spec: Spec) -> SpeculativeConfig:
    """A SpeculativeConfig with its own methods, but not the draft model that its constructor loads."""
    config = object.__new__(SpeculativeConfig)
    config.method = spec.method
    config.num_speculative_tokens = spec.k
    config.parallel_drafting = False
    ranges = spec.per_batch_size
    config.num_speculative_tokens_per_batch_size = None if ranges is None else [list(r) for r in ranges]
    return config
