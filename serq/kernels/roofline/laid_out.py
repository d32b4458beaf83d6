"""Which layout a roofline uses: the one that it names, the one of its stage, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from serq.kernels.ascend.graph_mode import DeviceFamily, GraphOptions
from serq.kernels.ascend.layout import AscendLayoutEngine, AscendLayoutOptions
from serq.kernels.catalogue.devices import Device
from serq.kernels.registry import ExecutorOptions, PricedStage, Setting
from serq.kernels.roofline.laying import AscendLaying, Laying, PlainLaying
from serq.kernels.roofline.shard import Shard
from serq.kernels.sglang.layout import SglangLayoutEngine

ASCEND_FAMILIES: Final = {
    "A2": DeviceFamily.A2, "A3": DeviceFamily.A3, "A5": DeviceFamily.A5, "310P": DeviceFamily.P310,
}
"""Family of a device of the catalogue -> that of the layouts."""


@dataclass(frozen=True, slots=True)
class LaidOut:
    """How steps become work, and the line about it in the report."""

    laying: Laying
    setting: Setting


def laying_of(options: ExecutorOptions, stage: PricedStage, shard: Shard, device: Device) -> LaidOut:
    """The layout in effect. Raises RunError for one that the device or the stage does not have."""
    named = options.text("layout") if options.written("layout") else None
    own = _kind(stage)
    if named is not None and own is not None and named != own:
        raise options.fault(f"`layout {named}`, and stage `{stage.name}` says `layout {own}`", "say it once")
    kind = named or own or "plain"
    source = "the program" if named or own else "default"
    setting = Setting("layout", kind, source)
    if kind != "vllm_ascend":
        return LaidOut(PlainLaying(), setting)
    if isinstance(stage.layout, AscendLayoutEngine):
        return LaidOut(AscendLaying(stage.layout), setting)
    if device.family not in ASCEND_FAMILIES:
        raise options.fault(f"`layout vllm_ascend` on {device.name}, which is no Ascend device")
    if stage.max_num_seqs is None or stage.max_num_batched_tokens is None or stage.max_model_len is None:
        raise options.fault(f"`layout vllm_ascend` needs a vllm stage, and `{stage.name}` is none")
    graphs = GraphOptions(
        max_num_seqs=stage.max_num_seqs,
        max_num_batched_tokens=stage.max_num_batched_tokens,
        num_speculative_tokens=stage.num_speculative_tokens,
        device=ASCEND_FAMILIES[device.family],
        tensor_parallel_size=shard.tensor_parallel_size,
    )
    engine = AscendLayoutEngine(
        AscendLayoutOptions(
            graphs,
            stage.max_model_len,
            speculative_method=stage.speculative_method,
            chunked_prefill=stage.chunked_prefill,
        )
    )
    return LaidOut(AscendLaying(engine), setting)


def _kind(stage: PricedStage) -> str | None:
    """The layout that the stage names."""
    if stage.layout is None:
        return None
    return "sglang" if isinstance(stage.layout, SglangLayoutEngine) else "vllm_ascend"
