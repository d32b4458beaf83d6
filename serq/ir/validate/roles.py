"""Options of an engine that need a connector, or a role at it (S-134, V-037)."""

from __future__ import annotations

from serq.ir.nodes import Connector, Program, Vllm
from serq.ir.validate.problem import Findings


def check_role(engine: Vllm, findings: Findings) -> None:
    """Report options that need a connector, or another role at it."""
    _needs_connector(engine, findings)
    role = engine.kv_role
    if engine.scheduler == "recompute" and role != "kv_consumer":
        said = "there is no `kv_connector`" if role is None else f"this engine is a {role}"
        message = f"`scheduler recompute` is for engines that only fetch KV, and {said}"
        help_ = "recomputing elsewhere needs a `kv_role kv_consumer;` beside its `kv_connector`"
        findings.error("E445", message, engine, "scheduler", help=help_)


def _needs_connector(engine: Vllm, findings: Findings) -> None:
    if engine.kv_connector is not None:
        return
    for option in ("kv_role", "kv_load_failure_policy"):
        if getattr(engine, option) is not None:
            message = f"`{option}` means nothing without a `kv_connector`"
            help_ = "name the connector: `kv_connector NAME;`"
            findings.error("E445", message, engine, option, help=help_)


def check_offloads(connector: Connector, program: Program, findings: Findings) -> None:
    """Warn of room for offloads that no scheduler asks for (V-038)."""
    engines = [stage.kind for stage in program.stages if isinstance(stage.kind, Vllm)]
    asks = any(engine.kv_connector == connector.name and _recomputes(engine) for engine in engines)
    if connector.offload_blocks > 0 and not asks:
        message = "`offload_blocks` has no effect: no engine at this connector has `scheduler recompute`"
        findings.warning("W612", message, connector, "offload_blocks")


def _recomputes(engine: Vllm) -> bool:
    """Whether the scheduler of ``engine`` offloads what does not fit (V-037, V-057)."""
    given = {option.name: option.value for option in engine.scheduler_options}
    return engine.scheduler == "recompute" or bool(given.get("recompute_scheduler_enable"))
