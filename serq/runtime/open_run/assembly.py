"""The engines of an open run, made of those on the clock: the same options, price, log and figures."""

from __future__ import annotations

from collections.abc import Sequence

from serq.runtime.clock import Clock
from serq.runtime.open_run.cached_blocks import CachedBlocks
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.giving_way import StepPrice
from serq.runtime.serving.decode_plans import ExpressionCost
from serq.runtime.serving.engine import VllmEngine
from serq.runtime.serving.planned_engine import ExpressionPrice
from serq.runtime.vllm.extents.manager import ExtentKVCacheManager
from serq.runtime.vllm.request_queue import FCFSRequestQueue


def open_engines(engines: Sequence[VllmEngine], clock: Clock) -> list[OpenEngine] | None:
    """An engine for each of ``engines``; None if one of them does what an open run does not know."""
    made = [_open_engine(engine, number, clock) for number, engine in enumerate(engines)]
    found = [engine for engine in made if engine is not None]
    return found if len(found) == len(made) else None


def _open_engine(engine: VllmEngine, number: int, clock: Clock) -> OpenEngine | None:
    parts, config = engine.parts, engine.resolved.config
    manager = parts.scheduler.kv_cache_manager
    price, decode_cost = parts.price, parts.decode_cost
    if (
        parts.walks is not None
        or not isinstance(price, ExpressionPrice)
        or not isinstance(decode_cost, ExpressionCost)
        or not isinstance(manager, ExtentKVCacheManager)
        or not isinstance(parts.scheduler.waiting, FCFSRequestQueue)
        or config.token_budget < config.max_num_seqs
    ):
        return None
    cached = None
    if config.enable_prefix_caching:
        cached = CachedBlocks(manager.block_pool, manager.block_size)
    step_price = StepPrice(price.cost, decode_cost.changes, "now" in price.reads)
    return OpenEngine(engine, number, clock, step_price, cached)
