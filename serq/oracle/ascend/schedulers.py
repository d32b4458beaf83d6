"""The scheduler that a recorded configuration stands for, with its connector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from serq.oracle.ascend.connectors import CONNECTORS, ScriptedConnector
from serq.runtime.ascend.balance import BalanceScheduler
from serq.runtime.ascend.batch_job_aware import BatchJobAwareConfig
from serq.runtime.ascend.batch_job_scheduler import BatchJobAwareScheduler
from serq.runtime.ascend.chunk_predictor import ProfilingChunkConfig
from serq.runtime.ascend.cpu_offload import CPUOffloadConnector
from serq.runtime.ascend.dyntra import DyntraLBRecomputeScheduler, DyntraLBScheduler
from serq.runtime.ascend.profiling_chunk import ProfilingChunkScheduler
from serq.runtime.ascend.recompute import RecomputeScheduler
from serq.runtime.ascend.short_request_first import ShortRequestFirstConfig, install_short_request_first
from serq.runtime.vllm.config import EngineConfig, KVTransferConfig
from serq.runtime.vllm.kv_cache_spec import FullAttentionSpec, KVCacheGroup
from serq.runtime.vllm.scheduler import VllmScheduler

Document = dict[str, Any]
Connector = ScriptedConnector | CPUOffloadConnector

SYNC_BASE = "vllm_ascend.patch.platform.patch_balance_schedule.BalanceScheduler"
ASYNC_BASE = "vllm.v1.core.sched.async_scheduler.AsyncScheduler"

UPSTREAM_CLASSES: dict[str, tuple[str, str]] = {
    "default": (SYNC_BASE, ASYNC_BASE),
    "balance": (SYNC_BASE, ASYNC_BASE),
    "srf": (
        SYNC_BASE,
        "vllm_ascend.core.short_request_first_scheduler.ShortRequestFirstAsyncScheduler",
    ),
    "bja": (
        "vllm_ascend.core.batch_job_aware_scheduler.BatchJobAwareScheduler",
        "vllm_ascend.core.batch_job_aware_scheduler.BatchJobAwareAsyncScheduler",
    ),
    "recompute": (
        "vllm_ascend.core.recompute_scheduler.RecomputeScheduler",
        "vllm_ascend.core.recompute_scheduler.AsyncRecomputeScheduler",
    ),
    "dyntra": (
        "vllm_ascend.core.dyntra_lb_scheduler.DyntraLBScheduler",
        "vllm_ascend.core.dyntra_lb_scheduler.AsyncDyntraLBScheduler",
    ),
    "dyntra_recompute": (
        "vllm_ascend.core.recompute_scheduler.DyntraLBRecomputeScheduler",
        "vllm_ascend.core.recompute_scheduler.AsyncDyntraLBRecomputeScheduler",
    ),
    "profiling": (
        "vllm_ascend.core.scheduler_profiling_chunk.ProfilingChunkScheduler",
        "vllm_ascend.core.scheduler_profiling_chunk.ProfilingChunkScheduler",
    ),
}
"""The upstream class of each kind of scheduler, synchronous and asynchronous (V-013)."""


@dataclass(frozen=True, slots=True)
class RecordedEngine:
    """A scheduler under replay."""

    scheduler: VllmScheduler
    connector: Connector | None
    upstream_class: str


def engine_config(config: Document) -> EngineConfig:
    """The engine configuration of a recording."""
    transfer = None
    if config.get("kv"):
        transfer = KVTransferConfig(role=config["kv"].get("role", "kv_consumer"))
    return EngineConfig(
        max_num_batched_tokens=config["max_num_batched_tokens"],
        max_num_seqs=config["max_num_seqs"],
        max_model_len=config.get("max_model_len", 4096),
        long_prefill_token_threshold=config.get("long_prefill_token_threshold", 0),
        policy=config.get("policy", "fcfs"),
        async_scheduling=config.get("async", False),
        scheduler_reserve_full_isl=config.get("reserve_full_isl", True),
        watermark=config.get("watermark", 0.0),
        enable_prefix_caching=config.get("enable_prefix_caching", False),
        num_gpu_blocks=config["num_blocks"],
        groups=(KVCacheGroup(FullAttentionSpec(config.get("block_size", 16))),),
        kv_transfer=transfer,
    )


def create_engine(config: Document, clock: Callable[[], float]) -> RecordedEngine:
    """The scheduler of a recording; ``clock`` tells its time in seconds."""
    kind = config.get("scheduler", "default")
    connector = create_connector(config)
    scheduler = _create_scheduler(kind, config, connector, clock)
    return RecordedEngine(scheduler, connector, UPSTREAM_CLASSES[kind][bool(config.get("async", False))])


def create_connector(config: Document) -> Connector | None:
    """The connector of a recording."""
    transfer = config.get("kv")
    if not transfer:
        return None
    if transfer["connector"] == "cpu_offload":
        return CPUOffloadConnector(transfer["cpu_blocks"], config.get("block_size", 16))
    return CONNECTORS[transfer["connector"]](transfer.get("remote", {}))


def _create_scheduler(
    kind: str, config: Document, connector: Connector | None, clock: Callable[[], float]
) -> VllmScheduler:
    engine = engine_config(config)
    if kind == "bja":
        return BatchJobAwareScheduler(engine, connector, jobs=BatchJobAwareConfig(**config.get("bja", {})))
    if kind == "profiling":
        return _create_profiling(engine, connector, config)
    classes: dict[str, type[VllmScheduler]] = {
        "recompute": RecomputeScheduler,
        "dyntra": DyntraLBScheduler,
        "dyntra_recompute": DyntraLBRecomputeScheduler,
        "balance": BalanceScheduler,
    }
    scheduler = classes.get(kind, VllmScheduler)(engine, connector)
    if kind == "srf":
        install_short_request_first(scheduler, ShortRequestFirstConfig(**config["srf"]), clock)
    return scheduler


def _create_profiling(
    engine: EngineConfig, connector: Connector | None, config: Document
) -> ProfilingChunkScheduler:
    options = config.get("profiling", {})
    defaults = ProfilingChunkConfig()
    chunks = ProfilingChunkConfig(
        smooth_factor=options.get("smooth_factor", defaults.smooth_factor),
        min_chunk=min(options.get("min_chunk", defaults.min_chunk), engine.max_num_batched_tokens),
        max_fit_chunk=options.get("max_fit_chunk", defaults.max_fit_chunk),
    )
    need_timing = config.get("need_timing", False)
    scheduler = ProfilingChunkScheduler(engine, connector, chunks=chunks, need_timing=need_timing)
    scheduler.predictor.fit(config["fit"]["lens"], config["fit"]["ms"])
    return scheduler
