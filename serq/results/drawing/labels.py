"""What stands in the boxes: the options that decide how a stage or a pool behaves, in few words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf
from typing import Final

from serq.ir import nodes
from serq.ir.printer import expression, number, reference

LONGEST: Final = 30
"""Characters of a line; a longer one is cut."""


def short(text: str) -> str:
    """A line that fits a box."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def stage_lines(kind: nodes.StageKind) -> list[str]:
    """The lines of a stage: its kind and its options."""
    return [short(line) for line in _stage(kind)]


def _stage(kind: nodes.StageKind) -> Iterator[str]:
    match kind:
        case nodes.Fifo():
            yield "fifo" if kind.servers == 1 else f"fifo, {kind.servers} servers"
        case nodes.ProcessorSharing():
            yield f"ps, capacity {expression(kind.capacity)}"
        case nodes.Delay():
            yield "delay"
        case nodes.Step():
            yield "step engine"
            yield from _step(kind)
        case nodes.Vllm():
            yield "vLLM engine"
            yield from _vllm(kind)


def _step(kind: nodes.Step) -> Iterator[str]:
    if kind.budget is not None:
        yield f"budget {expression(kind.budget)}"
    if kind.chunk is not None:
        yield f"chunk {expression(kind.chunk)}"
    if kind.serve_by:
        yield f"serve by {_list(kind.serve_by)}"
    if kind.exclusive_prefill:
        yield "serve exclusive prefill"


def _vllm(kind: nodes.Vllm) -> Iterator[str]:
    for name in ("max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks", "kv_role", "scheduler"):
        value = getattr(kind, name)
        if value is not None:
            yield f"{name} {value}"
    if kind.waiting.kind != "fcfs":
        keys = f" {_list(kind.waiting.keys)}" if kind.waiting.keys else ""
        yield f"waiting {kind.waiting.kind}{keys}"


def pool_lines(pool: nodes.Pool) -> list[str]:
    """The lines of a pool: room, blocks, who waits and who gives way."""
    lines = ["no limit" if isinf(pool.capacity) else f"cap {number(pool.capacity)}"]
    if pool.block is not None:
        lines.append(f"blocks of {number(pool.block)}")
    if pool.queue_by:
        lines.append(f"queue by {_list(pool.queue_by)}")
    if pool.preempt != "none":
        lines.append(f"preempt {pool.preempt}")
    if pool.admit_via is not None:
        lines.append(f"admit via {pool.admit_via}")
    if pool.spill is not None:
        lines.append(f"spill to {reference(pool.spill.tier)}")
    return [short(line) for line in lines]


def arrival_lines(workload: nodes.Workload) -> list[str]:
    """How sessions arrive."""
    match workload.arrive:
        case None:
            line = "nobody arrives"
        case nodes.Poisson(rate=rate):
            line = f"poisson, {number(rate)} a second"
        case nodes.Renewal(gap=gap):
            line = f"renewal, gap {expression(gap)}"
        case nodes.Closed(count=count):
            line = f"{count} at a time"
        case nodes.Batch(count=count):
            line = f"{count} at once"
        case nodes.Traced(speed=speed):
            line = "from a trace" if speed == 1 else f"from a trace, {number(speed)} times as fast"
    lines = [short(line)]
    if workload.trace is not None:
        lines.append(short(workload.trace))
    return lines


def _list(keys: Sequence[nodes.Expr]) -> str:
    return ", ".join(map(expression, keys))
