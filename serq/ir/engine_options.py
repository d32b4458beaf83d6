"""Every option of a `vllm` stage: its name, type, default, limits and meaning, in one table.

Names, defaults and limits are those of vLLM 0.27.1's configuration classes; a default of None is resolved
from other options, as the table says. The linker, the validator, the command line and the documentation read
this table and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Final, Literal

import msgspec

OptionType = Literal[
    "count", "number", "switch", "word", "name", "numbers", "counts", "text", "rule", "quantity"
]
"""Whole number; number; true or false; one of some words; name of a declaration; list of numbers or of whole
numbers; string; one of some words or an expression over the step that is priced; number or such an
expression."""

Default = int | float | bool | str | None


class EngineOption(msgspec.Struct, frozen=True):
    """One option.

    ``low`` and ``high`` are the least and greatest value, ``below`` a limit that must not be reached.
    ``flag`` is the option on vLLM's command line; empty: it has none.
    """

    name: str
    type: OptionType
    default: Default
    meaning: str
    rules: str = ""
    low: float = -inf
    high: float = inf
    below: float = inf
    words: tuple[str, ...] = ()
    required: bool = False
    flag: str = ""

    def fault(self, value: float) -> str | None:
        """What a number would have to be, where ``value`` is out of the limits."""
        if (self.low <= value <= self.high and value < self.below) or value == self.high == inf:
            return None
        limits = [f"at least {self.low:g}"] if self.low > -inf else []
        limits += [f"at most {self.high:g}"] if self.high < inf else []
        limits += [f"less than {self.below:g}"] if self.below < inf else []
        return " and ".join(limits)


Table = Mapping[str, EngineOption]


def option_table(*options: EngineOption) -> Table:
    """Options by their names."""
    return MappingProxyType({option.name: option for option in options})


ENGINE_OPTIONS: Final = option_table(
    EngineOption("num_gpu_blocks", "count", None,
                 "blocks of the KV cache, the null block included; default: what `gpu_memory_utilization` "
                 "leaves, where the executor of `cost via` knows model and device, else required",
                 "S-005", 2, flag="num_gpu_blocks_override"),
    EngineOption("gpu_memory_utilization", "number", 0.9,
                 "share of the device that the engine takes, where `num_gpu_blocks` is computed",
                 "", 0.01, 1),
    EngineOption("max_model_len", "count", None, "longest prompt and output together, in tokens",
                 "S-003", 1, required=True, flag="max_model_len"),
    EngineOption("max_num_batched_tokens", "count", 2048, "tokens that one step may compute",
                 "S-002, S-003", 1, flag="max_num_batched_tokens"),
    EngineOption("max_num_scheduled_tokens", "count", None,
                 "token budget of a step, where it is less than `max_num_batched_tokens`",
                 "S-002", 1, flag="max_num_scheduled_tokens"),
    EngineOption("max_num_seqs", "count", 128, "requests that may run at once",
                 "S-003", 1, flag="max_num_seqs"),
    EngineOption("block_size", "count", 16, "tokens of a block, where a group does not say otherwise",
                 "S-110", 1, flag="block_size"),
    EngineOption("enable_prefix_caching", "switch", True, "whether blocks are found again by their content",
                 "S-070", flag="enable_prefix_caching"),
    EngineOption("enable_chunked_prefill", "switch", True, "whether several steps may share a prompt",
                 "S-003", flag="enable_chunked_prefill"),
    EngineOption("long_prefill_token_threshold", "count", 0,
                 "most tokens of one request in a step; 0: no limit",
                 "S-003", 0, flag="long_prefill_token_threshold"),
    EngineOption("async_scheduling", "switch", None,
                 "whether the next step is planned while one runs; on, unless the drafter forbids it",
                 "S-103", flag="async_scheduling"),
    EngineOption("scheduler_reserve_full_isl", "switch", True,
                 "whether a request is admitted only if all of its prompt fits",
                 "S-057", flag="scheduler_reserve_full_isl"),
    EngineOption("watermark", "number", 0.0, "share of the pool that an admission leaves free",
                 "S-090", 0, below=1, flag="watermark"),
    EngineOption("prefix_match_unit", "count", None,
                 "tokens hashed together; default: what divides every group's block size",
                 "S-110", 1, flag="prefix_match_unit"),
    EngineOption("retention_interval", "count", None,
                 "tokens between the states that a sliding-window or mamba group keeps; default: all",
                 "S-082", 0),
    EngineOption("prefill_schedule_interval", "count", 1, "ranks start prompts together, every so many steps",
                 "S-023, S-150", 1, flag="prefill_schedule_interval"),
    EngineOption("v2_model_runner", "switch", False,
                 "whether the worker is told of a resumed request as of a new one; no decision depends on it",
                 "S-022, S-059"),
    EngineOption("data_parallel_size", "count", 1,
                 "ranks that step together: the members of the family, or 1", "S-150", 1,
                 flag="data_parallel_size"),
    EngineOption("pipeline_parallel_size", "count", 1,
                 "stages of the model's pipeline; above 1 only with `scheduler profiling_chunk`", "V-060", 1,
                 flag="pipeline_parallel_size"),
    EngineOption("kv_connector", "name", None, "the `connector` over which KV is sent or fetched", "S-130"),
    EngineOption("kv_role", "word", None, "what the engine is to its connector; needed beside one", "S-106",
                 words=("kv_producer", "kv_consumer", "kv_both")),
    EngineOption("kv_load_failure_policy", "word", "fail", "what becomes of a request whose KV is lost",
                 "S-134", words=("recompute", "fail")),
    EngineOption("scheduler", "word", "default", "which scheduler decides", "V-037, V-050, V-058, V-060",
                 words=("default", "recompute", "profiling_chunk", "balance", "dyntra_lb")),
)  # fmt: skip
"""The plain options of a stage; `cost`, `group`, `layout`, `speculative` and `waiting` stand beside them."""

GROUP_OPTIONS: Final = option_table(
    EngineOption("block_size", "count", None,
                 "tokens of a block; default: that of the stage, for `mamba` `max_model_len`", "S-110", 1),
    EngineOption("window", "count", None, "`sliding`: tokens that attention looks back", "S-075", 1),
    EngineOption("chunk", "count", None, "`chunked_local`: tokens of a chunk", "S-076", 1),
    EngineOption("mode", "word", "none", "`mamba`: which states are cached", "S-111, S-112, S-120",
                 words=("none", "align", "all")),
    EngineOption("num_speculative_blocks", "count", 0, "`mamba`: blocks for states of drafts", "S-111", 0),
    EngineOption("eagle", "switch", False, "whether the drafter's layers are in this group", "S-004, S-081"),
)  # fmt: skip

GROUP_KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "full": ("block_size", "eagle"),
    "sliding": ("block_size", "window", "eagle"),
    "chunked_local": ("block_size", "chunk", "eagle"),
    "mamba": ("block_size", "mode", "num_speculative_blocks", "eagle"),
})  # fmt: skip
"""Kind of a KV cache group -> its options."""

GROUP_REQUIRED: Final[Mapping[str, str]] = MappingProxyType({"sliding": "window", "chunked_local": "chunk"})
"""Kind of a KV cache group -> the option that it cannot do without."""

SPECULATIVE_OPTIONS: Final = option_table(
    EngineOption("k", "count", None, "drafts a request gets in a step", "S-004", 1, required=True),
    EngineOption("accept", "numbers", None,
                 "chance that the i-th draft is taken, given those before it; drafts beyond are not",
                 "", 0, 1),
    EngineOption("per_batch_size", "numbers", None,
                 "drafts by batch size: `from, to, drafts`, and again", "S-102", 0),
)  # fmt: skip

SPECULATIVE_METHODS: Final = (
    *("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "draft_model"),
    *("eagle", "eagle3", "mtp", "dflash", "dspark"),
)
"""Methods of speculation that a stage can name."""

_FIXED: Final = "true: without the defect of upstream"

WAITING_OPTIONS: Final[Mapping[str, Table]] = MappingProxyType({
    "fcfs": option_table(),
    "priority": option_table(),
    "short_request_first": option_table(
        EngineOption("threshold", "count", 256, "prompt tokens that still count as short", "V-002", 0),
        EngineOption("long_max_wait_ms", "number", 0.0,
                     "milliseconds after which the head of the long lane goes first; 0: never", "V-005", 0),
        EngineOption("fixed", "switch", False, _FIXED, "V-007"),
    ),
    "batch_job_aware": option_table(
        EngineOption("max_jobs", "count", 20, "jobs that are told apart", "V-020", 0),
        EngineOption("reserve_margin_blocks", "count", 2, "blocks kept beside the prediction", "V-020", 0),
        EngineOption("reserve_max_blocks", "count", 8, "most blocks kept for one request", "V-020", 0),
        EngineOption("low_available_tokens_threshold", "count", 4096,
                     "free tokens below which short prompts go first", "V-020", 0),
        EngineOption("short_decode_token_threshold", "count", 32,
                     "output tokens up to which a job counts as short", "V-020", 0),
        EngineOption("fixed", "switch", False, _FIXED, "V-034"),
    ),
})  # fmt: skip
"""Order of the waiting queue -> its options; `by (keys)` takes none."""

SCHEDULER_OPTIONS: Final[Mapping[str, Table]] = MappingProxyType({
    "default": option_table(),
    "recompute": option_table(EngineOption("fixed", "switch", False, _FIXED, "V-048")),
    "balance": option_table(),
    "profiling_chunk": option_table(
        EngineOption("smooth_factor", "number", 1.0,
                     "1: chunks follow the prediction; 0: they keep their size", "V-062", 0, 1),
        EngineOption("min_chunk", "count", 4096,
                     "tokens of the smallest chunk; at most `max_num_batched_tokens`", "V-060", 1),
        EngineOption("need_timing", "switch", True, "whether steps are timed for a second fit", "V-063"),
        EngineOption("max_fit_chunk", "count", 30, "steps after which timing ends", "V-063", 6),
    ),
    "dyntra_lb": option_table(
        EngineOption("mode", "word", "dynamic",
                     "`static`: always on; `dynamic`: while long requests are new", "V-051",
                     words=("dynamic", "static")),
        EngineOption("start_step", "count", 250, "first step with a plan", "V-050", 0),
        EngineOption("end_step", "count", -1, "first step without one again; -1: never", "V-050", -1),
        EngineOption("bubble_threshold", "number", 5.0,
                     "blocks above the mean that are put up with; below 1: share of the mean", "V-056", 0),
        EngineOption("long_req_block_threshold", "count", 700, "blocks of a long request", "V-051", 1),
        EngineOption("dynamic_max_step", "count", 256,
                     "steps without a new long request after which `dynamic` is off", "V-051", 1),
        EngineOption("recompute_scheduler_enable", "switch", False,
                     "whether requests that do not fit are offloaded or given back, as by `recompute`",
                     "V-057"),
    ),
})  # fmt: skip
"""Scheduler -> its options."""

_DEVICE: Final = EngineOption("device", "word", "A2", "family of the device", "V-098",
                              words=("A2", "A3", "A5", "P310"))  # fmt: skip

LAYOUT_OPTIONS: Final[Mapping[str, Table]] = MappingProxyType({
    "vllm_ascend": option_table(
        _DEVICE,
        EngineOption("cudagraph_mode", "word", "FULL_AND_PIECEWISE",
                     "what decodes and what mixed steps run as", "V-073",
                     words=("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")),
        EngineOption("enforce_eager", "switch", False, "no graphs at all", "V-073"),
        EngineOption("cudagraph_capture_sizes", "counts", None,
                     "token counts with a graph; default: 1, 2, 4, by 8 to 256, by 16", "V-072", 1),
        EngineOption("max_cudagraph_capture_size", "count", None,
                     "largest of them; default: those of `max_num_seqs` decodes, at most 512", "V-072", 1),
        EngineOption("tensor_parallel_size", "count", 1, "devices that share a step", "V-070", 1),
        EngineOption("enable_sp", "switch", False,
                     "sequence parallelism: tokens are padded to a multiple of `tensor_parallel_size`",
                     "V-070"),
    ),
    "sglang": option_table(_DEVICE),
})  # fmt: skip
"""Layout of steps on the device -> its options."""

CONNECTOR_OPTIONS: Final = ("over", "work", "latency", "fail", "late", "offload_blocks", "release_after")

OPTION_FAMILIES: Final = ("cost", "group", "layout", "speculative", "waiting")
"""Options of a stage that are written in a form of their own."""
