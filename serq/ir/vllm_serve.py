"""A `vllm` stage as the `vllm serve` command line that means the same."""

from __future__ import annotations

from typing import Final, NamedTuple

from serq.ir.engine_options import ENGINE_OPTIONS
from serq.ir.serving import Vllm


class ServeCommand(NamedTuple):
    """The command line, and what of the stage it cannot say."""

    command: str
    unsaid: tuple[str, ...]


def serve_command(engine: Vllm, model: str = "MODEL") -> ServeCommand:
    """The command of an engine: the options that the program gives, under vLLM 0.27.1's flags."""
    words, unsaid = [f"vllm serve {model}"], []
    for name, option in ENGINE_OPTIONS.items():
        value = getattr(engine, name, None)
        if value is None or (name == "scheduler" and value == "default"):
            continue
        flag = option.flag or _ONLY_SAID.get(name, "")
        if not flag:
            unsaid.append(name)
        elif isinstance(value, bool):
            words.append(_flag(flag if value else f"no-{flag}"))
        else:
            words.append(f"{_flag(flag)} {value}")
    if engine.waiting.kind == "priority":
        words.append("--scheduling-policy priority")
    elif engine.waiting.kind != "fcfs":
        unsaid.append(f"waiting {engine.waiting.kind}")
    unsaid += [f"group {group.kind}" for group in engine.groups]
    if engine.speculative is not None:
        unsaid.append("speculative")
    return ServeCommand(" ".join(words), tuple(unsaid))


_ONLY_SAID: Final = {"gpu_memory_utilization": "gpu_memory_utilization"}
"""Flags that a stage is not read from: there `num_gpu_blocks` says what follows from them."""


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
