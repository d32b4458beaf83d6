"""The schedulers of vllm-ascend that a `vllm` stage asks for by name, and what their ranks do together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from serq.ir.serving import Vllm
from serq.runtime.ascend.balance import BalanceScheduler, gather_running
from serq.runtime.ascend.chunk_predictor import ProfilingChunkConfig, profile_lengths
from serq.runtime.ascend.dyntra import DyntraLBPolicy, DyntraLBRecomputeScheduler, DyntraLBScheduler
from serq.runtime.ascend.dyntra_group import DyntraLBConfig, DyntraLBGroup
from serq.runtime.ascend.profiling_chunk import ProfilingChunkScheduler
from serq.runtime.ascend.recompute import RecomputeScheduler
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.scheduler import VllmScheduler

_WHOLE = ("min_chunk", "max_fit_chunk", "start_step", "end_step", "long_req_block_threshold",
          "dynamic_max_step")  # fmt: skip


def ascend_scheduler(
    declared: Vllm, config: EngineConfig, connector: KVConnector | None
) -> VllmScheduler | None:
    """The scheduler that ``declared`` names; None where it is none of these."""
    options = scheduler_options(declared)
    match declared.scheduler:
        case "recompute":
            return RecomputeScheduler(config, connector, fixed=bool(options.get("fixed")))
        case "balance":
            return BalanceScheduler(config, connector, ranks=declared.data_parallel_size or 1)
        case "profiling_chunk":
            need_timing = bool(options.pop("need_timing", True))
            limit = config.max_num_batched_tokens
            options["min_chunk"] = min(options.get("min_chunk", ProfilingChunkConfig().min_chunk), limit)
            chunks = ProfilingChunkConfig(**options)
            return ProfilingChunkScheduler(config, connector, chunks=chunks, need_timing=need_timing)
        case "dyntra_lb":
            recomputes = options.get("recompute_scheduler_enable")
            return (DyntraLBRecomputeScheduler if recomputes else DyntraLBScheduler)(config, connector)
    return None


def profile(scheduler: VllmScheduler, prefill_seconds: Callable[[int], float]) -> None:
    """Time the start-up profile of a scheduler that wants one, by what a prefill costs (V-061)."""
    if isinstance(scheduler, ProfilingChunkScheduler):
        lengths = profile_lengths(scheduler.config.max_num_batched_tokens)
        scheduler.predictor.fit(lengths, [prefill_seconds(length) * 1000 for length in lengths if length])


def together(declared: Vllm, ranks: Sequence[VllmScheduler]) -> Callable[[], bool] | None:
    """What the schedulers of a group do after every iteration, and whether it is news; None: nothing."""
    balanced = [rank for rank in ranks if isinstance(rank, BalanceScheduler)]
    if balanced:
        return lambda: gather_running(balanced)
    evened = [rank for rank in ranks if isinstance(rank, DyntraLBPolicy)]
    if evened:
        options = scheduler_options(declared)
        options.pop("recompute_scheduler_enable", None)
        return DyntraLBGroup(evened, DyntraLBConfig(**options)).after_iteration
    return None


def scheduler_options(declared: Vllm) -> dict[str, Any]:
    """The options of the scheduler as they were written."""
    return {
        option.name: int(option.value) if option.name in _WHOLE else option.value
        for option in declared.scheduler_options
    }
