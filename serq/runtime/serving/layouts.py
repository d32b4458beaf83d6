"""How the steps of a `vllm` stage lie on its device: what the stage says, completed by defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from serq.ir.serving import Layout
from serq.runtime.vllm.config import EngineConfig

if TYPE_CHECKING:
    from serq.kernels.ascend.layout import AscendLayoutEngine
    from serq.kernels.sglang.layout import SglangLayoutEngine

    StepLayoutEngine = AscendLayoutEngine | SglangLayoutEngine


def layout_engine(declared: Layout, config: EngineConfig) -> StepLayoutEngine:
    """What lays out the steps of an engine. Raises ValueError for too many drafts (V-069)."""
    # Few runs lay steps out: the others start without these modules.
    from serq.kernels.ascend.graph_mode import DeviceFamily, GraphMode, GraphOptions
    from serq.kernels.ascend.layout import AscendLayoutEngine, AscendLayoutOptions
    from serq.kernels.sglang.layout import SglangLayoutEngine, SglangLayoutOptions

    device = DeviceFamily[declared.device or "A2"]
    if declared.kind == "sglang":
        return SglangLayoutEngine(SglangLayoutOptions(config.max_model_len, device))
    speculative = config.speculative
    graphs = GraphOptions(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        num_speculative_tokens=0 if speculative is None else speculative.num_speculative_tokens,
        device=device,
        mode=None if declared.cudagraph_mode is None else GraphMode[declared.cudagraph_mode],
        enforce_eager=bool(declared.enforce_eager),
        capture_sizes=declared.cudagraph_capture_sizes or None,
        max_capture_size=declared.max_cudagraph_capture_size,
        tensor_parallel_size=declared.tensor_parallel_size or 1,
        shards_tokens=bool(declared.enable_sp),
    )
    return AscendLayoutEngine(
        AscendLayoutOptions(
            graphs,
            config.max_model_len,
            speculative_method=None if speculative is None else speculative.method,
            chunked_prefill=config.enable_chunked_prefill,
        )
    )


def layout_text(declared: Layout) -> str:
    """The layout as the report prints it."""
    given = [
        f"{name} {_text(value)}"
        for name in declared.__struct_fields__[1:]
        if (value := getattr(declared, name)) not in (None, ()) and name != "device"
    ]
    device = f"device {declared.device or 'A2'}"
    return f"{declared.kind}({', '.join([device, *given])})"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
