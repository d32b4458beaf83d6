"""Every kind of executor and its options, in one table (docs/executors.md).

The linker, the validator, the factories in ``serq.kernels`` and the documentation read this table and no
other. An option without a default is optional and means what its meaning says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from serq.ir.engine_options import EngineOption, Table, option_table


class ExecutorKind(msgspec.Struct, frozen=True):
    """A kind of executor. ``prices_totals``: it can price a step of which only totals are known."""

    name: str
    meaning: str
    options: Table
    prices_totals: bool = False
    knows_memory: bool = False
    """Whether it knows what the KV cache of an engine is left with."""


def _share(name: str, meaning: str) -> EngineOption:
    """A share of a peak; one that is calibrated may exceed 1, where the catalogue's peak is too low."""
    return EngineOption(name, "number", None, meaning, "", 1e-3, 1.5)


ROOFLINE: Final = ExecutorKind(
    "roofline",
    "what the arithmetic and the memory traffic of a model take on a device, at stated efficiencies",
    option_table(
        EngineOption("model", "text", None, "a model of the catalogue", "", required=True),
        EngineOption("device", "text", None, "a device of the catalogue", "", required=True),
        EngineOption("tensor_parallel_size", "count", 1, "devices that share every layer", "", 1),
        EngineOption("data_parallel_size", "count", None,
                     "engines that share the routed experts; default: that of the stage", "", 1),
        EngineOption("enable_expert_parallel", "switch", False,
                     "whether routed experts are dealt out whole, not sliced"),
        EngineOption("weight_dtype", "word", "bfloat16", "element type of linear layers and experts",
                     words=("bfloat16", "int8", "float8")),
        EngineOption("kv_cache_dtype", "word", "bfloat16", "element type of keys and values",
                     words=("bfloat16", "int8", "float8")),
        EngineOption("layout", "word", None,
                     "how steps lie on the device; default: as the stage's `layout` says, else `plain`",
                     words=("plain", "vllm_ascend", "sglang")),
        EngineOption("attention", "rule", None,
                     "whether decodes and prefills of a step are one attention call or two, `auto`: the "
                     "cheaper; or an expression that is not 0 for two. Default: `split` on Ascend 950, else "
                     "`mixed`", words=("mixed", "split", "auto")),
        EngineOption("attention_table", "word", None,
                     "price attention from measured points instead of a roofline", words=("ascend950",)),
        EngineOption("calibration", "text", None, "a file of efficiencies that were fitted to measurements"),
        _share("compute_efficiency", "share of the peak that arithmetic reaches"),
        _share("memory_efficiency", "share of the bandwidth that is reached"),
        _share("linear_efficiency", "both shares, of linear layers"),
        _share("attention_efficiency", "both shares, of attention"),
        _share("gdn_efficiency", "both shares, of Gated DeltaNet"),
        _share("experts_efficiency", "both shares, of routed experts"),
        _share("lm_head_efficiency", "both shares, of the language-model head"),
        _share("link_efficiency", "share of the link's bandwidth"),
        EngineOption("peak_operations", "number", None, "operations a second at bfloat16", "", 1),
        EngineOption("memory_bandwidth", "number", None, "bytes a second", "", 1),
        EngineOption("memory_bytes", "number", None, "bytes of a device", "", 1),
        EngineOption("activation_bytes", "number", None, "bytes of the peak of the profiling step", "", 0),
        EngineOption("graph_bytes", "number", None, "bytes of captured graphs", "", 0),
        EngineOption("runtime_bytes", "number", None, "bytes of driver, runtime and collectives", "", 0),
        EngineOption("link_bandwidth", "number", None, "bytes a second to the other devices, one way", "", 1),
        EngineOption("link_latency", "number", 0.0, "seconds of one message between devices", "", 0),
        EngineOption("kernel_overhead", "number", None, "seconds of an operator call beside its work", "", 0),
        EngineOption("host_overhead", "quantity", 0.0, "seconds a step", "", 0),
        EngineOption("scheduler_overhead", "number", 0.0, "seconds a request in a step", "", 0),
        EngineOption("tokenizer_overhead", "number", 0.0, "seconds a prompt token in a step", "", 0),
        EngineOption("api_server_overhead", "number", 0.0, "seconds a reply in a step", "", 0),
    ),
    prices_totals=True,
    knows_memory=True,
)  # fmt: skip

TABLE: Final = ExecutorKind(
    "table",
    "measured latencies of operators, interpolated between measured points",
    option_table(
        EngineOption("tables", "text", None, "the folder of the tables"),
        EngineOption("fia", "word", None, "price attention from measured points of this device",
                     words=("ascend950",)),
        EngineOption("fia_split", "rule", "always",
                     "whether decodes and prefills of a step are two attention calls, `auto`: if that is "
                     "cheaper; or an expression that is not 0 for two", words=("never", "always", "auto")),
        EngineOption("model", "text", None, "a model of the catalogue, for `fia`"),
        EngineOption("tensor_parallel_size", "count", 1, "devices that share every layer, for `fia`", "", 1),
        EngineOption("extrapolation", "word", "linear", "what is done beyond the measured range", "",
                     words=("error", "nearest", "linear")),
    ),
)  # fmt: skip

MEASURED: Final = ExecutorKind(
    "measured",
    "a vLLM step composed from the operator tables of the LLMServingSim profiler",
    option_table(
        EngineOption("tables", "text", None, "the folder with `meta.yaml` and `tpN`", "", required=True),
        EngineOption("model", "text", None,
                     "a model of the catalogue, or its `config.json`; default: that of the tables"),
        EngineOption("tensor_parallel_size", "count", 1, "devices that share every layer", "", 1),
        EngineOption("data_parallel_size", "count", None,
                     "engines in lock step that share the experts; default: that of the stage", "", 1),
        EngineOption("enable_expert_parallel", "switch", False,
                     "whether experts are dealt out to all devices"),
        EngineOption("enforce_eager", "switch", False,
                     "whether no graph was captured, so that nothing is padded"),
        EngineOption("link_bandwidth", "number", None, "bytes a second between devices", "", 1),
        EngineOption("link_latency", "number", 0.0, "seconds of a phase of a collective", "", 0),
        EngineOption("expert_bytes", "number", 1.0,
                     "share of their bytes that the collectives of experts are charged with", "", 0),
    ),
)  # fmt: skip

def _measuring(warmup: int, repeats: int, *options: EngineOption) -> Table:
    """What both kinds take that measure: ``options`` is what they run on."""
    return option_table(
        EngineOption("model", "text", None, "a model of the catalogue", "", required=True),
        *options,
        EngineOption("tables", "text", None,
                     "the folder in which prices are kept; what is there is not measured again", "",
                     required=True),
        EngineOption("tensor_parallel_size", "count", 1, "devices that share every layer; one is measured",
                     "", 1),
        EngineOption("data_parallel_size", "count", None,
                     "engines that share the routed experts; default: that of the stage", "", 1),
        EngineOption("enable_expert_parallel", "switch", False,
                     "whether routed experts are dealt out whole, not sliced"),
        EngineOption("kv_cache_dtype", "word", "auto", "element type of keys and values; `auto`: `dtype`",
                     words=("auto", "int8")),
        EngineOption("attention", "word", None,
                     "whether decodes and prefills of a step are one attention call or two; default: as the "
                     "layout has it", words=("mixed", "split")),
        EngineOption("context_step", "count", 128,
                     "tokens to a multiple of which contexts are rounded up before they are measured", "", 1),
        EngineOption("warmup", "count", warmup, "runs of an operator before it is timed", "", 0),
        EngineOption("repeats", "count", repeats, "timed runs, of which the median counts", "", 1),
        EngineOption("flush_bytes", "count", None,
                     "bytes overwritten before every timed run, so that caches are cold; default: 256 MiB on "
                     "a device, 0 on the CPU", "", 0),
        EngineOption("link_bandwidth", "number", None,
                     "bytes a second to the other devices, one way, where ranks exchange data", "", 1),
        EngineOption("link_latency", "number", 0.0, "seconds of one message between devices", "", 0),
    )


_LAYOUTS: Final = ("plain", "vllm_ascend", "sglang")

TORCH: Final = ExecutorKind(
    "torch",
    "what the operators of a step take where torch runs them, measured when their shape first comes",
    _measuring(
        3, 11,
        EngineOption("device", "word", "cpu", "where torch runs", words=("cpu", "cuda")),
        EngineOption("dtype", "word", "bfloat16", "element type of weights and activations",
                     words=("bfloat16", "float16", "float32")),
        EngineOption("layout", "word", None,
                     "how steps lie on the device; default: as the stage's `layout` says, else `plain`",
                     words=_LAYOUTS),
    ),
)

TORCH_NPU: Final = ExecutorKind(
    "torch_npu",
    "what the operators of a step take on an Ascend NPU, measured when their shape first comes",
    _measuring(
        10, 200,
        EngineOption("device", "text", None, "the Ascend device, as the catalogue calls it", "",
                     required=True),
        EngineOption("dtype", "word", "bfloat16", "element type of weights and activations",
                     words=("bfloat16", "float16")),
        EngineOption("layout", "word", None,
                     "how steps lie on the device; default: as the stage's `layout` says, else "
                     "`vllm_ascend`", words=_LAYOUTS),
    ),
)  # fmt: skip

EXECUTOR_KINDS: Final[Mapping[str, ExecutorKind]] = MappingProxyType(
    {kind.name: kind for kind in (ROOFLINE, TABLE, MEASURED, TORCH, TORCH_NPU)}
)
"""Kind of an executor -> what it is and what it takes."""
