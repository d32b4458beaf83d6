"""The `vllm` stages of a run are put together: options, scheduler, queue, price, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from serq.errors import RunError
from serq.ir import nodes
from serq.ir.walk import descendants
from serq.runtime.codegen import reading
from serq.runtime.pricing import MeteredExecutor, Pricing
from serq.runtime.random import DrawStream
from serq.runtime.serving.decode_plans import DecodeCost, ExecutorCost, ExpressionCost, sees_rows
from serq.runtime.serving.engine import VllmEngine
from serq.runtime.serving.engine_log import EngineLog
from serq.runtime.serving.engines import EngineMode, Engines, not_fast
from serq.runtime.serving.hybrid_memory import hybrid_memory
from serq.runtime.serving.layouts import layout_engine
from serq.runtime.serving.options import ResolvedEngine, cache_request, priced_stage, resolve
from serq.runtime.serving.planned_engine import EngineParts, ExpressionPrice
from serq.runtime.serving.ranks import EngineGroup, RankEngine
from serq.runtime.serving.schedulers import create_scheduler, names_scheduler, walks_always
from serq.runtime.serving.transfer_link import TransferLink
from serq.runtime.stage import Waker
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.extents.chains import RunHasher
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.request import Hasher
from serq.runtime.vllm.tokens import PrefixHasher
from serq.source import Diagnostic

if TYPE_CHECKING:
    from serq.runtime.serving.engine_connector import EngineConnector
    from serq.runtime.serving.layouts import StepLayoutEngine

_PROVISIONAL: Final = 2
"""Blocks of an engine whose executor is asked how many there are."""


class EngineAssembly(Engines):
    """Builds the engines of a run.

    Engines with equal hash blocks share one hasher, so that a conversation is hashed once for all of them.
    """

    def __init__(
        self,
        program: nodes.Program,
        host: Waker,
        functions: Mapping[str, Callable[..., Any]],
        pricing: Pricing,
        links: Mapping[str, TransferLink],
        *,
        keep_rows: bool = False,
        mode: EngineMode = "auto",
    ) -> None:
        """``keep_rows``: the rows of every step are kept, so that it can be laid out afterwards."""
        super().__init__([*beyond_upstream(program), *pipelines(program)])
        self._mode = mode
        self._host = host
        self._functions = functions
        self._keeps_rows = keep_rows
        self._pricing = pricing
        self._links = links
        self._hashers: dict[tuple[int, bool], Hasher] = {}
        self._groups: dict[str, EngineGroup] = {}

    def build(
        self,
        stage: nodes.Stage,
        declared: nodes.Vllm,
        member: int,
        python_name: str,
        draws: DrawStream | None,
    ) -> VllmEngine:
        """One member of ``stage``; ``python_name`` is that of its generated functions.

        Raises RunError for options that vLLM would refuse and for what does not run yet.
        """
        clock = self._host.clock
        declared = self._sized(stage, declared)
        resolved = resolve(stage.name, declared)
        key = self._functions.get(f"waiting_key_{python_name}")
        link = None if declared.kv_connector is None else self._links[declared.kv_connector]
        connector = None if link is None else _connector(link, resolved.config)
        price = self._price(stage, declared, resolved, python_name, draws)
        walks = self._walks_always(stage.name, declared, resolved.config, price)
        scheduler = create_scheduler(
            stage.name, declared, resolved.config, lambda: clock.now, key, connector, fast=walks is None
        )
        hasher = self._hasher(resolved.config, walks is None)
        decode_cost: DecodeCost | None = None
        if walks is None and isinstance(price, MeteredExecutor):
            decode_cost = ExecutorCost(price)
        elif walks is None and isinstance(price, ExpressionPrice):
            decode_cost = ExpressionCost(price.cost, price.reads, clock)
            walks = None if reading.stands_alone(declared.cost) else self._insist(stage.name, WalkReason.COST)
        parts = EngineParts(resolved, scheduler, price, hasher, link, decode_cost, walks)
        pool = scheduler.kv_cache_manager.block_pool
        layout = _layout(stage.name, declared, resolved.config) if self._keeps_rows else None
        memory = hybrid_memory(scheduler.kv_cache_manager)
        log = EngineLog(stage.name, member, len(self.engines), self.requests, pool, layout, memory)
        engine = self._engine(stage, declared, member, parts, log)
        if names_scheduler(declared):
            from serq.runtime.serving.ascend_schedulers import profile  # see create_scheduler

            profile(scheduler, lambda length: engine.price_alone(length, 0))
        self.engines.append(engine)
        return engine

    def _sized(self, stage: nodes.Stage, declared: nodes.Vllm) -> nodes.Vllm:
        """The stage with the blocks of its KV cache: as said, or as its executor computes them."""
        if declared.num_gpu_blocks is not None or not isinstance(declared.cost, nodes.Via):
            return declared
        provisional = resolve(stage.name, msgspec.structs.replace(declared, num_gpu_blocks=_PROVISIONAL))
        priced = priced_stage(stage.name, declared, provisional, self._pricing.folder)
        blocks = self._pricing.num_gpu_blocks(declared.cost, priced, cache_request(declared))
        return msgspec.structs.replace(declared, num_gpu_blocks=blocks)

    def _price(
        self,
        stage: nodes.Stage,
        declared: nodes.Vllm,
        resolved: ResolvedEngine,
        python_name: str,
        draws: DrawStream | None,
    ) -> ExpressionPrice | MeteredExecutor:
        """What prices the steps of a member: the expression of its cost, or the executor that it names."""
        if isinstance(declared.cost, nodes.Via):
            priced = priced_stage(stage.name, declared, resolved, self._pricing.folder)
            return self._pricing.member(declared.cost, priced)
        cost = self._functions[f"cost_{python_name}"]
        return ExpressionPrice(lambda totals: cost(totals, draws), reading.variables((declared.cost,)))

    def _engine(
        self, stage: nodes.Stage, declared: nodes.Vllm, member: int, parts: EngineParts, log: EngineLog
    ) -> VllmEngine:
        """An engine of its own, or the next rank of the stage's group."""
        size = declared.data_parallel_size or 1
        if size == 1:
            return VllmEngine(stage.name, member, self._host, parts, log)
        group = self._groups.setdefault(stage.name, EngineGroup(self._host))
        rank = RankEngine(stage.name, member, self._host, parts, log, group)
        if member == size - 1:
            from serq.runtime.serving.ascend_schedulers import together  # see create_scheduler

            exchange = together(declared, [rank.scheduler for rank in group.ranks])
            group.after_iteration = exchange or group.after_iteration
        return rank

    def _walks_always(
        self,
        name: str,
        declared: nodes.Vllm,
        config: EngineConfig,
        price: ExpressionPrice | MeteredExecutor,
    ) -> WalkReason | None:
        if self._mode == "reference":
            return WalkReason.REFERENCE
        reason = walks_always(declared, config)
        by_rows = isinstance(price, MeteredExecutor) and sees_rows(price.executor)
        if reason is None and (self._keeps_rows or by_rows):
            reason = WalkReason.ROWS
        return None if reason is None else self._insist(name, reason)

    def _insist(self, name: str, reason: WalkReason) -> WalkReason:
        """``reason``, unless every engine must be fast. Raises RunError then."""
        if self._mode == "fast":
            raise not_fast(name, reason)
        return reason

    def _hasher(self, config: EngineConfig, fast: bool) -> Hasher | None:
        if not config.enable_prefix_caching and config.kv_transfer is None:
            return None
        size = config.block_sizes[1]
        if (size, fast) not in self._hashers:
            self._hashers[size, fast] = RunHasher(size) if fast else PrefixHasher(size)
        return self._hashers[size, fast]


def _layout(name: str, declared: nodes.Vllm, config: EngineConfig) -> StepLayoutEngine:
    try:
        return layout_engine(declared.layout, config)
    except ValueError as error:
        raise RunError(f"stage `{name}`: {error}", code="engine-options") from None


def _connector(link: TransferLink, config: EngineConfig) -> EngineConnector:
    """The scheduler's half of one engine's connector."""
    from serq.runtime.serving.engine_connector import EngineConnector  # brings vllm-ascend's offload along

    assert config.kv_transfer is not None
    return EngineConnector(
        offload_blocks=link.offload_blocks,
        block_size=config.block_sizes[0],
        produces=config.kv_transfer.is_producer,
    )


def beyond_upstream(program: nodes.Program) -> list[Diagnostic]:
    """A note for every setting of ``program`` that no flag of upstream can make."""
    found: dict[str, str] = {}
    for node in descendants(program):
        if isinstance(node, nodes.Request) and node.immediate is not None:
            found.setdefault("immediate", f"request `{node.handle}`")
    for stage in program.stages:
        if isinstance(stage.kind, nodes.Vllm):
            waiting, scheduler = stage.kind.waiting.options, stage.kind.scheduler_options
            if any(o.name == "fixed" and o.value for options in (waiting, scheduler) for o in options):
                found.setdefault("fixed", f"stage `{stage.name}`")
    return [
        Diagnostic(
            "beyond-upstream",
            f"`{setting}` goes beyond upstream, which has no such setting: this engine cannot be configured",
            owner=owner,
            severity="warning",
        )
        for setting, owner in found.items()
    ]


def pipelines(program: nodes.Program) -> list[Diagnostic]:
    """A note for every stage with a pipeline, whose own timing is not modelled."""
    return [
        Diagnostic(
            "pipeline-timing",
            f"what the {stage.kind.pipeline_parallel_size} stages of the pipeline overlap is not modelled",
            owner=f"stage `{stage.name}`",
            severity="warning",
            help="chunk sizes and admissions are those of the scheduler; `cost` is that of a whole step",
        )
        for stage in program.stages
        if isinstance(stage.kind, nodes.Vllm) and (stage.kind.pipeline_parallel_size or 1) > 1
    ]
