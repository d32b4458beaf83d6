"""Which scheduler a vllm-ascend deployment gets, and what is refused (V-002, V-013, V-037, V-050, V-058)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from serq.errors import UsageError
from serq.runtime.ascend.short_request_first import ShortRequestFirstConfig
from serq.runtime.vllm.config import KVRole


class SchedulerOptionError(UsageError):
    """Scheduler options that vllm-ascend refuses, in its own words."""


class SchedulerKind(Enum):
    """The schedulers and waiting queues of vllm-ascend."""

    DEFAULT = "default"
    SHORT_REQUEST_FIRST = "srf"
    BATCH_JOB_AWARE = "bja"
    RECOMPUTE = "recompute"
    DYNTRA_LB = "dyntra"
    DYNTRA_LB_RECOMPUTE = "dyntra_recompute"
    PROFILING_CHUNK = "profiling"
    BALANCE = "balance"


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """What bears on the choice: the node's role, its parallelism, and ``scheduler_config``.

    ``scheduler_config`` is that of ``additional_config``; its keys are upstream's.
    """

    kv_role: KVRole | None = None
    data_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    scheduler_config: Mapping[str, Any] = field(default_factory=dict)

    def enables(self, feature: str) -> bool:
        """Whether a feature with a configuration of its own is enabled."""
        return bool(self.scheduler_config.get(feature, {}).get("enabled", False))

    def flag(self, name: str) -> bool:
        """Whether a plain flag is set."""
        return bool(self.scheduler_config.get(name, False))


def choose_scheduler(options: SchedulerOptions) -> SchedulerKind:
    """The scheduler in effect. Raises :class:`SchedulerOptionError` for what cannot be combined."""
    _check_short_request_first(options)
    dyntra = _check_dyntra(options)
    recompute = _check_recompute(options)
    profiling = _check_profiling(options)
    balance = _check_balance(options)
    if options.enables("batch_job_sched_config"):
        return SchedulerKind.BATCH_JOB_AWARE
    if dyntra:
        return SchedulerKind.DYNTRA_LB_RECOMPUTE if recompute else SchedulerKind.DYNTRA_LB
    if recompute:
        return SchedulerKind.RECOMPUTE
    if profiling:
        return SchedulerKind.PROFILING_CHUNK
    if options.enables("short_request_first_config"):
        return SchedulerKind.SHORT_REQUEST_FIRST
    return SchedulerKind.BALANCE if balance else SchedulerKind.DEFAULT


def short_request_first_config(given: Mapping[str, Any]) -> ShortRequestFirstConfig:
    """The lanes' options from upstream's mapping (V-002)."""
    known = ("enabled", "threshold", "long_max_wait_ms")
    unknown = sorted(key for key in given if key not in known)
    if unknown:
        raise SchedulerOptionError(f"Unknown short_request_first_config keys: {unknown}")
    try:
        return ShortRequestFirstConfig(**{key: given[key] for key in known[1:] if key in given})
    except ValueError as error:
        raise SchedulerOptionError(str(error)) from error


def _check_short_request_first(options: SchedulerOptions) -> None:
    short_request_first_config(options.scheduler_config.get("short_request_first_config", {}))
    if not options.enables("short_request_first_config"):
        return
    if options.kv_role == "kv_consumer":
        raise SchedulerOptionError(
            "ShortRequestFirst scheduling is supported only on prefill or PD-mixed nodes, "
            "not PD-disaggregated D nodes (kv_role='kv_consumer')."
        )
    for other in ("batch_job_sched_config", "profiling_chunk_config"):
        if options.enables(other):
            raise SchedulerOptionError(
                f"ShortRequestFirst scheduling cannot be enabled with {other}. Please disable one of them."
            )


def _check_dyntra(options: SchedulerOptions) -> bool:
    if not options.enables("dyntra_lb_config"):
        return False
    if options.kv_role != "kv_consumer":
        raise SchedulerOptionError(
            "DyntraLB is only supported on PD-disaggregated D nodes "
            f"(kv_role='kv_consumer', but got kv_role={options.kv_role!r})."
        )
    if options.data_parallel_size <= 1:
        raise SchedulerOptionError("DyntraLB requires data_parallel_size > 1.")
    for name, enabled in (
        ("enable_balance_scheduling", options.flag("enable_balance_scheduling")),
        ("profiling_chunk_config", options.enables("profiling_chunk_config")),
    ):
        if enabled:
            raise SchedulerOptionError(f"DyntraLB cannot be enabled with {name}. Please disable one of them.")
    return True


def _check_recompute(options: SchedulerOptions) -> bool:
    if not options.flag("recompute_scheduler_enable") or options.kv_role == "kv_producer":
        return False
    if options.kv_role != "kv_consumer":
        raise SchedulerOptionError(
            "recompute_scheduler_enable can only be enabled on PD-disaggregated D nodes "
            f"(kv_role='kv_consumer', but got kv_role={options.kv_role!r}), "
            "and is not supported in PD-mixed mode or without a KV connector."
        )
    return True


def _check_profiling(options: SchedulerOptions) -> bool:
    if not options.enables("profiling_chunk_config"):
        return False
    if options.pipeline_parallel_size <= 1:
        raise SchedulerOptionError(
            "profiling_chunk_config requires pipeline parallelism (pp > 1). Please set "
            "--pipeline-parallel-size to a value greater than 1, or disable profiling_chunk_config."
        )
    return True


def _check_balance(options: SchedulerOptions) -> bool:
    if not options.flag("enable_balance_scheduling"):
        return False
    if options.kv_role not in (None, "kv_both"):
        raise SchedulerOptionError(
            "enable_balance_scheduling only supports PD-mixed mode (kv_role='kv_both' or no "
            "kv_transfer_config), and is not supported in PD-disaggregated mode "
            f"(kv_role={options.kv_role!r})."
        )
    return True
