"""Requests and engines for the tests of this folder."""

from __future__ import annotations

from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.kv_cache_spec import FullAttentionSpec, KVCacheGroup
from serq.runtime.vllm.request import Request, StopRule
from serq.runtime.vllm.scheduler import VllmScheduler
from serq.runtime.vllm.scheduler_output import ModelOutput, RequestOutput, SchedulerOutput
from serq.runtime.vllm.tokens import OutputScript


def request(name: str, prompt: int, decode: int = 1, stops: bool = False) -> Request:
    script = OutputScript((name, "out"), end_at=decode - 1 if stops else None)
    return Request(name, ((name, 0, prompt),), StopRule(decode + 9 * stops), script)


def engine(**options: object) -> EngineConfig:
    defaults: dict[str, object] = {
        "max_num_batched_tokens": 128,
        "max_num_seqs": 4,
        "enable_prefix_caching": False,
        "num_gpu_blocks": 9,
        "groups": (KVCacheGroup(FullAttentionSpec(16)),),
    }
    return EngineConfig(**{**defaults, **options})  # type: ignore[arg-type]


def step(
    scheduler: VllmScheduler, loaded: tuple[str, ...] = ()
) -> tuple[SchedulerOutput, list[RequestOutput]]:
    """One synchronous step; loads that end with it."""
    formed = scheduler.schedule(0)
    sampled = {name: int(share.samples) for name, share in formed.scheduled.items()}
    outputs = scheduler.update_from_output(formed, ModelOutput(sampled, finished_recving=loaded), 0)
    return formed, outputs


def shares(formed: SchedulerOutput) -> dict[str, int]:
    return {name: share.num_tokens for name, share in formed.scheduled.items()}


def names(requests: object) -> list[str]:
    return [entry.request_id for entry in requests]  # type: ignore[attr-defined]
