"""`serq memory`: what a model leaves of a device for its KV cache, or what an engine's log says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from serq.cli import completion
from serq.cli.options import FILE
from serq.errors import RunError, UsageError

if TYPE_CHECKING:
    from serq.kernels.memory.budget import MemoryBudget, MemoryTerms
    from serq.kernels.memory.engine_log import LoggedCache

_BYTES = {"bfloat16": 2.0, "int8": 1.0, "float8": 1.0}
_DTYPE = click.Choice(list(_BYTES))
_SIZE = click.FloatRange(min=0.0)
_PART = click.FloatRange(0, 1, min_open=True)
_COUNT = click.IntRange(min=1)
Command = Callable[..., Any]


def _overrides(command: Command) -> Command:
    """The figures that are estimates, or of the catalogue."""
    for name, what in (
        ("memory-bytes", "Memory of a device."),
        ("activation-bytes", "Peak of the profiling step."),
        ("graph-bytes", "Captured graphs."),
        ("runtime-bytes", "Driver, runtime, collectives."),
    ):
        command = click.option(f"--{name}", type=_SIZE, metavar="BYTES", help=f"{what} Replaces the figure.")(
            command
        )
    return command


@click.command("memory")
@click.argument("model", required=False, shell_complete=completion.models)
@click.argument("device", required=False, shell_complete=completion.devices)
@click.option("--tp", type=_COUNT, default=1, show_default=True, help="Tensor-parallel ranks.")
@click.option("--dp", type=_COUNT, default=1, show_default=True, help="Engines that share routed experts.")
@click.option("--ep", is_flag=True, help="Deal routed experts out whole.")
@click.option("--gpu-memory-utilization", type=_PART, default=0.9, show_default=True)
@click.option("--max-num-batched-tokens", type=_COUNT, default=2048, show_default=True)
@click.option("--max-num-seqs", type=_COUNT, default=128, show_default=True)
@click.option("--max-model-len", type=_COUNT, help="Say how many requests of this length the cache holds.")
@click.option("--block-size", type=_COUNT, help="Tokens of a block; default: what the engine chooses.")
@click.option("--weight-dtype", type=_DTYPE, default="bfloat16", show_default=True)
@click.option("--kv-cache-dtype", type=_DTYPE, default="bfloat16", show_default=True)
@click.option("--num-speculative-tokens", type=click.IntRange(min=0), default=0, show_default=True)
@_overrides
@click.option("--from-log", type=FILE, metavar="FILE", help="Read the size that vLLM logged.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def memory(model: str | None, device: str | None, from_log: Path | None, as_json: bool, **given: Any) -> None:
    """Print how the memory of a rank of MODEL on DEVICE is divided, and the blocks of its KV cache.

    Every figure has its source. With --from-log, print the blocks that an engine logged, beside those that
    are computed if MODEL and DEVICE are given.
    """
    from serq.kernels.memory.engine_log import read_log

    if (model is None) != (device is None) or (model is None and from_log is None):
        raise UsageError("`serq memory` takes a MODEL and a DEVICE, or `--from-log FILE`, or all three")
    logged = None if from_log is None else read_log(from_log)
    found = None if model is None or device is None else _budget(model, device, given)
    plain = _plain(found, logged, given)
    click.echo(json.dumps(plain, ensure_ascii=False) if as_json else "\n".join(_text(plain)))


def _budget(model: str, device: str, given: dict[str, Any]) -> MemoryBudget:
    from serq.kernels.catalogue import unknown
    from serq.kernels.catalogue.devices import devices
    from serq.kernels.catalogue.models import models
    from serq.kernels.memory.budget import budget, gib, what_fits
    from serq.kernels.roofline.shard import Shard

    if model not in models():
        raise UsageError(f"unknown model `{model}`; {unknown('model', model, models())}")
    if device not in devices():
        raise UsageError(f"unknown device `{device}`; {unknown('device', device, devices())}")
    shard = Shard(models()[model], given["tp"], given["dp"], given["ep"])
    fault = shard.fault()
    if fault is not None:
        raise UsageError(f"{fault[0]}; {fault[1].replace('`tensor_parallel_size`', '--tp')}")
    terms = _terms(given)
    found = budget(shard, devices()[device], terms)
    if found.num_gpu_blocks < 2:
        short = f"{gib(found.cache)} are left for the KV cache, and a block takes {gib(found.block_bytes)}"
        raise RunError(f"{short}; {what_fits(shard, devices()[device], terms)}", code="no-room")
    return found


def _terms(given: dict[str, Any]) -> MemoryTerms:
    from serq.kernels.memory.budget import MemoryTerms

    same = (
        *("gpu_memory_utilization", "max_num_batched_tokens", "max_num_seqs", "block_size"),
        *("memory_bytes", "activation_bytes", "graph_bytes", "runtime_bytes"),
    )
    return MemoryTerms(
        **{name: given[name] for name in same},
        speculative_tokens=given["num_speculative_tokens"],
        weight_bytes=_BYTES[given["weight_dtype"]],
        cache_bytes=_BYTES[given["kv_cache_dtype"]],
    )


def _plain(found: MemoryBudget | None, logged: LoggedCache | None, given: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if found is not None:
        pages = found.pages
        out["memory"] = [share._asdict() for share in (found.total, *found.shares)]
        out["kv_cache"] = found.cache
        out["kv_bytes_per_token"] = pages.token_bytes * pages.shard.model.full_attention_layers
        out["state_bytes_per_request"] = pages.request_state_bytes
        out["block_size"] = found.block_size
        out["block_bytes"] = found.block_bytes
        out["layers_per_group"] = pages.layers_per_group
        out["groups"] = {"full": pages.full_groups, "mamba": pages.state_groups}
        out["num_gpu_blocks"] = found.num_gpu_blocks
        out["kv_tokens"] = found.kv_tokens
        if given["max_model_len"] is not None:
            out["requests_of_max_model_len"] = found.requests(given["max_model_len"])
    if logged is not None:
        groups = 1 if found is None else found.pages.full_groups + found.pages.state_groups
        size = given["block_size"] or (16 if found is None else found.block_size)
        out["logged"] = {
            "num_gpu_blocks": logged.blocks(size, groups),
            "kv_tokens": logged.kv_tokens,
            "block_size": logged.block_size or size,
        }
    return out


def _text(plain: dict[str, Any]) -> list[str]:
    from serq.kernels.memory.budget import gib
    from serq.results.tables import Table
    from serq.results.text import aligned

    lines: list[str] = []
    if "memory" in plain:
        rows = [(row["name"], gib(row["size"]), row["source"]) for row in plain["memory"]]
        rows.append(("KV cache", gib(plain["kv_cache"]), "the rest"))
        lines += aligned(Table(("memory of a rank", "size", "source"), tuple(rows), words=True))
        lines += ["", f"KV cache of a token       {plain['kv_bytes_per_token']:,.0f} bytes"]
        if plain["state_bytes_per_request"]:
            lines.append(f"state of a request        {plain['state_bytes_per_request']:,.0f} bytes")
        layers = plain["layers_per_group"]
        block = f"{plain['block_size']} tokens, {plain['block_bytes']:,.0f} bytes over {layers} layers"
        lines.append(f"block                     {block}")
        lines.append(f"num_gpu_blocks            {plain['num_gpu_blocks']}")
        lines.append(f"tokens, as vLLM logs it   {plain['kv_tokens']:,}")
        if "requests_of_max_model_len" in plain:
            lines.append(f"requests of max_model_len {plain['requests_of_max_model_len']:.2f}")
        lines += ["", "in a vllm stage:", f"  num_gpu_blocks {plain['num_gpu_blocks']};"]
        if plain["groups"]["mamba"]:
            lines.append(f"  group full {{ block_size {plain['block_size']}; }}")
            lines += ["  group mamba { mode none; }"] * plain["groups"]["mamba"]
        else:
            lines.append(f"  block_size {plain['block_size']};")
    if "logged" in plain:
        logged = plain["logged"]
        tokens = "" if logged["kv_tokens"] is None else f" ({logged['kv_tokens']:,} tokens)"
        blocks, size = logged["num_gpu_blocks"], logged["block_size"]
        lines.append(f"logged: num_gpu_blocks {blocks}{tokens}, block_size {size}")
    return lines
