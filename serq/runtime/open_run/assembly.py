"""The engines of an open run, made of those on the clock: the same options, price, log and figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from serq.ir import nodes
from serq.ir.serving import Waiting
from serq.runtime.clock import Clock
from serq.runtime.codegen import reading
from serq.runtime.open_run.cached_blocks import CachedBlocks
from serq.runtime.open_run.engine import OpenEngine
from serq.runtime.open_run.giving_way import OpenParts, StepPrice
from serq.runtime.open_run.prompts import PromptChains
from serq.runtime.serving.engine import VllmEngine
from serq.runtime.serving.planned_engine import ExpressionPrice
from serq.runtime.vllm.extents.manager import ExtentKVCacheManager
from serq.runtime.vllm.request_queue import FCFSRequestQueue

_BY_SHARE: Final = frozenset(
    {"decoders", "kv_decode", "kv_prefill", "context_decode", "context_prefill", "attention"}
)


def open_engines(
    engines: Sequence[VllmEngine], clock: Clock, program: nodes.Program
) -> list[OpenEngine] | None:
    """An engine for each of ``engines``; None if one of them does what an open run does not know."""
    declared = {stage.name: stage.kind for stage in program.stages}
    prompts: dict[int, PromptChains] = {}
    made = []
    for number, engine in enumerate(engines):
        kind = declared[engine.name]
        assert isinstance(kind, nodes.Vllm)
        if not _keeps_order(kind.waiting):
            return None
        made.append(_open_engine(engine, number, clock, prompts))
    found = [engine for engine in made if engine is not None]
    return found if len(found) == len(made) else None


def _keeps_order(waiting: Waiting) -> bool:
    """Whether the order of waiting depends on nothing but who waits, and since when."""
    known = waiting.kind in ("fcfs", "short_request_first", "by")
    return known and all(map(reading.stands_alone, waiting.keys))


def _open_engine(
    engine: VllmEngine, number: int, clock: Clock, prompts: dict[int, PromptChains]
) -> OpenEngine | None:
    """``prompts`` are those of engines with blocks of a size."""
    parts, config = engine.parts, engine.resolved.config
    manager = parts.scheduler.kv_cache_manager
    if (
        parts.walks is not None
        or parts.decode_cost is None
        or not isinstance(manager, ExtentKVCacheManager)
        or config.token_budget < config.max_num_seqs
    ):
        return None
    cached = None
    if config.enable_prefix_caching:
        size = manager.block_size
        cached = CachedBlocks(manager.block_pool, size, prompts.setdefault(size, PromptChains(size)))
    price = parts.price
    if isinstance(price, ExpressionPrice):
        step_price = StepPrice(
            price.cost, parts.decode_cost.changes, bool(price.reads & _BY_SHARE), "now" in price.reads
        )
    else:
        step_price = StepPrice(None, changes=True, by_share=True, reads_clock=False, executor=price)
    waiting = parts.scheduler.waiting
    order = None if isinstance(waiting, FCFSRequestQueue) else waiting
    return OpenEngine(OpenParts(engine, number, clock, step_price, cached, order))
