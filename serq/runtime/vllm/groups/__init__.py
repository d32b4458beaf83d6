"""Managers of one KV cache group each: what a request holds there, what it still needs, what hits."""

from __future__ import annotations

from typing import Any

from serq.runtime.vllm.groups.base import SingleTypeKVCacheManager
from serq.runtime.vllm.groups.chunked_local import ChunkedLocalAttentionManager
from serq.runtime.vllm.groups.full_attention import FullAttentionManager
from serq.runtime.vllm.groups.mamba import MambaManager
from serq.runtime.vllm.groups.mamba_align import MambaAlignManager
from serq.runtime.vllm.groups.sliding_window import SlidingWindowManager
from serq.runtime.vllm.kv_cache_spec import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    SlidingWindowSpec,
)

__all__ = ["KVCacheGroupManager", "create_manager"]

KVCacheGroupManager = SingleTypeKVCacheManager[Any]
"""A manager of whatever kind."""


def create_manager(spec: KVCacheSpec, **settings: Any) -> KVCacheGroupManager:
    """The manager of a group of kind ``spec``; ``settings`` are those of ``SingleTypeKVCacheManager``."""
    if isinstance(spec, FullAttentionSpec):
        return FullAttentionManager(spec, **settings)
    if isinstance(spec, SlidingWindowSpec):
        return SlidingWindowManager(spec, **settings)
    if isinstance(spec, ChunkedLocalAttentionSpec):
        return ChunkedLocalAttentionManager(spec, **settings)
    return MambaAlignManager(spec, **settings) if spec.mode == "align" else MambaManager(spec, **settings)
