"""Which engines a program's decisions are matched with, step for step, and in which version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from serq.ir import nodes

VLLM: Final = "0.27.1"
VLLM_ASCEND: Final = "182b75ea"
"""A commit, which pairs with that vLLM (docs/ascend.md)."""
_ASCEND_QUEUES: Final = ("short_request_first", "batch_job_aware")
_ASCEND_SCHEDULERS: Final = ("recompute", "profiling_chunk", "balance", "dyntra_lb")


def modelled(program: nodes.Program) -> dict[str, str]:
    """Engine -> version, of those that the stages of a program decide like."""
    out = {}
    if any(isinstance(stage.kind, nodes.Vllm) for stage in program.stages):
        out["vllm"] = VLLM
    if any(True for _ in _ascend(program)):
        out["vllm-ascend"] = VLLM_ASCEND
    return out


def matched(program: nodes.Program) -> str:
    """The same in words: what decides like which version, and what decides as the program says."""
    parts = []
    found = modelled(program)
    if "vllm" in found:
        parts.append(f"vLLM {VLLM}")
    if "vllm-ascend" in found:
        parts.append(f"vllm-ascend {VLLM_ASCEND} ({', '.join(_ascend(program))})")
    for stage in program.stages:
        if isinstance(stage.kind, nodes.Vllm) and stage.kind.waiting.kind == "by":
            parts.append(f"`{stage.name}` queues by the program's keys")
        if isinstance(stage.kind, nodes.Step):
            parts.append(f"`{stage.name}` batches by the program's rules")
    return "; ".join(parts)


def _ascend(program: nodes.Program) -> Iterator[str]:
    """The queues and schedulers that are vllm-ascend's, each with its stage."""
    for stage in program.stages:
        if isinstance(stage.kind, nodes.Vllm):
            if stage.kind.waiting.kind in _ASCEND_QUEUES:
                yield f"`{stage.name}`: {stage.kind.waiting.kind}"
            if stage.kind.scheduler in _ASCEND_SCHEDULERS:
                yield f"`{stage.name}`: scheduler {stage.kind.scheduler}"
