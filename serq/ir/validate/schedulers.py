"""Which scheduler goes with what: combinations that vllm-ascend refuses (V-013, V-037, V-050 to V-060)."""

from __future__ import annotations

from collections.abc import Iterator

from serq.ir.engine_options import SCHEDULER_OPTIONS
from serq.ir.serving import Vllm
from serq.ir.validate.problem import Findings


def check_scheduler(engine: Vllm, findings: Findings) -> None:
    """Tell every option of the scheduler that is wrong, and the first combination that cannot be."""
    kind = engine.scheduler or "default"
    table = SCHEDULER_OPTIONS[kind]
    for given in engine.scheduler_options:
        option = table.get(given.name)
        if option is None:
            message = f"`scheduler {kind}` has no option `{given.name}`"
            findings.error("E222", message, engine, "scheduler")
        elif isinstance(given.value, str):
            if given.value not in option.words:
                message = f"`{given.name}` is one of {', '.join(option.words)}, not `{given.value}`"
                findings.error("E225", message, engine, "scheduler")
        elif (fault := option.fault(given.value)) is not None:
            message = f"`{given.name}` must be {fault}, not {given.value:g}"
            findings.error("E433", message, engine, "scheduler")
    for part, message in _conflicts(engine, kind):
        findings.error("E433", message, engine, part)
        return


def _conflicts(engine: Vllm, kind: str) -> Iterator[tuple[str, str]]:
    """The option and the message of everything that does not go together."""
    ranks, pipeline = engine.data_parallel_size or 1, engine.pipeline_parallel_size or 1
    if kind == "profiling_chunk" and pipeline == 1:
        yield "scheduler", "`scheduler profiling_chunk` needs `pipeline_parallel_size` above 1 (V-060)"
    if pipeline > 1 and kind != "profiling_chunk":
        yield (
            "pipeline_parallel_size",
            "a pipeline is modelled only with `scheduler profiling_chunk`: what its stages overlap is not",
        )
    if kind == "dyntra_lb" and (engine.kv_role != "kv_consumer" or ranks == 1):
        yield (
            "scheduler",
            "`scheduler dyntra_lb` needs `kv_role kv_consumer` and `data_parallel_size` above 1 (V-050)",
        )
    if kind == "balance" and engine.kv_role in ("kv_producer", "kv_consumer"):
        yield "scheduler", f"`scheduler balance` does not go with `kv_role {engine.kv_role}` (V-058)"
    if kind != "default" and engine.waiting.kind == "batch_job_aware":
        yield "scheduler", f"`waiting batch_job_aware` has a scheduler of its own, not `{kind}` (V-036)"
    if engine.waiting.kind == "short_request_first":
        if kind == "profiling_chunk":
            yield "scheduler", "`waiting short_request_first` does not go with `profiling_chunk` (V-013)"
        if engine.kv_role == "kv_consumer":
            yield "waiting", "`waiting short_request_first` does not go with `kv_role kv_consumer` (V-013)"
