"""Options of an engine that need a connector, or a role at it (S-134, V-037)."""

from __future__ import annotations

from serq.ir.nodes import Vllm
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
