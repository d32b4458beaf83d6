"""Which scheduler and which waiting queue a `vllm` stage asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from serq.errors import RunError
from serq.ir.serving import Vllm, Waiting
from serq.runtime.serving.sent_request import ServedRequest
from serq.runtime.serving.waiting_orders import Key, KeyedRequestQueue
from serq.runtime.vllm.config import EngineConfig
from serq.runtime.vllm.connector import KVConnector
from serq.runtime.vllm.extents.manager import suits_extents
from serq.runtime.vllm.fast.reasons import WalkReason
from serq.runtime.vllm.fast.scheduler import FastScheduler
from serq.runtime.vllm.request import Request
from serq.runtime.vllm.request_queue import RequestQueue
from serq.runtime.vllm.scheduler import VllmScheduler

Clock = Callable[[], float]

_WHOLE: Final = ("threshold", "max_jobs", "reserve_margin_blocks", "reserve_max_blocks",
                 "low_available_tokens_threshold", "short_decode_token_threshold")  # fmt: skip


def names_scheduler(declared: Vllm) -> bool:
    """Whether the stage asks for another scheduler than that of vLLM."""
    return (declared.scheduler or "default") != "default"


def walks_always(declared: Vllm, config: EngineConfig) -> WalkReason | None:
    """Why no step of such an engine can be formed in bulk or planned; None: they can."""
    if names_scheduler(declared) or declared.waiting.kind == "batch_job_aware":
        return WalkReason.SCHEDULER
    if config.speculative is not None:
        return WalkReason.SPECULATION
    if config.kv_transfer is not None or declared.kv_connector is not None:
        return WalkReason.CONNECTOR
    if (declared.data_parallel_size or 1) > 1:
        return WalkReason.RANKS
    if config.prefill_schedule_interval != 1:
        return WalkReason.CADENCE
    return None if suits_extents(config) else WalkReason.GROUPS


def create_scheduler(
    name: str,
    declared: Vllm,
    config: EngineConfig,
    clock: Clock,
    key: Key | None,
    connector: KVConnector | None = None,
    *,
    fast: bool = False,
) -> VllmScheduler:
    """The scheduler of stage ``name`` with its waiting queue; ``key`` gives the keys of `waiting by`.

    ``clock`` tells the time in seconds. ``fast``: the scheduler that counts decodes in bulk, for engines that
    do not :func:`walks_always`. Raises RunError for options that upstream would refuse.

    What is vllm-ascend's is imported where a stage asks for it: most do not, and start sooner.
    """
    waiting = declared.waiting
    try:
        if waiting.kind == "batch_job_aware":
            return _job_scheduler(waiting, config, connector)
        scheduler = FastScheduler(config) if fast else _walking(declared, config, connector)
        if waiting.kind == "short_request_first":
            scheduler.waiting = _lanes(waiting, clock)
    except (TypeError, ValueError) as error:
        raise RunError(f"stage `{name}`: {error}", code="engine-options") from None
    if waiting.kind == "by":
        assert key is not None
        scheduler.waiting = KeyedRequestQueue(key)
    return scheduler


def _walking(declared: Vllm, config: EngineConfig, connector: KVConnector | None) -> VllmScheduler:
    scheduler = None
    if names_scheduler(declared):
        from serq.runtime.serving.ascend_schedulers import ascend_scheduler

        scheduler = ascend_scheduler(declared, config, connector)
    return scheduler or VllmScheduler(config, connector)


def _job_scheduler(waiting: Waiting, config: EngineConfig, connector: KVConnector | None) -> VllmScheduler:
    from serq.runtime.ascend.batch_job_aware import BatchJobAwareConfig
    from serq.runtime.ascend.batch_job_scheduler import BatchJobAwareScheduler

    return BatchJobAwareScheduler(config, connector, jobs=BatchJobAwareConfig(**_job_options(waiting)))


def _lanes(waiting: Waiting, clock: Clock) -> RequestQueue:
    from serq.runtime.ascend.short_request_first import (
        ShortRequestFirstConfig,
        ShortRequestFirstRequestQueue,
        is_recovery_request,
    )

    def is_immediate(request: Request) -> bool:
        """Started before, or `immediate` by its client's word, which goes beyond upstream (V-012)."""
        by_client = isinstance(request, ServedRequest) and request.client.immediate
        return is_recovery_request(request) or by_client

    lanes = ShortRequestFirstConfig(**_options(waiting), head_hides_age=not _fixed(waiting))
    return ShortRequestFirstRequestQueue(lanes, clock, is_immediate=is_immediate)


def _options(waiting: Waiting) -> dict[str, Any]:
    return {
        option.name: int(option.value) if option.name in _WHOLE else option.value
        for option in waiting.options
        if option.name != "fixed"
    }


def _fixed(waiting: Waiting) -> bool:
    """`fixed true`: an engine without the defects of upstream that are known."""
    return any(option.name == "fixed" and option.value for option in waiting.options)


def _job_options(waiting: Waiting) -> dict[str, Any]:
    """Fixed, an abort clears the queue's choice (V-034), and jobs beyond the limit wait as well (V-035)."""
    upstream = not _fixed(waiting)
    return {**_options(waiting), "keeps_removed_peek": upstream, "refuses_jobs": upstream}
