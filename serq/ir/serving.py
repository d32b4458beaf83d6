"""The language beyond the base: engines of vLLM, requests, executors, connectors (design_language.md).

A `vllm` stage keeps what the program says, typed, under vLLM 0.27.1's own names; None means vLLM's default,
which the runtime resolves and the report prints. Lengths are tokens, capacities blocks, times seconds.
"""

from __future__ import annotations

from typing import Literal

from serq.ir.expressions import Expr, Node, StageRef, Statement


class KVCacheGroup(Node, frozen=True, tag="kv_cache_group"):
    """One group of layers that share a block table (S-110 to S-129)."""

    kind: Literal["full", "sliding", "chunked_local", "mamba"]
    block_size: int | None = None
    window: int | None = None
    chunk: int | None = None
    mode: Literal["none", "align", "all"] | None = None
    num_speculative_blocks: int = 0
    eagle: bool = False


class Speculative(Node, frozen=True, tag="speculative"):
    """Speculative decoding; ``accept[i]`` is the chance that draft i is taken, given those before it."""

    method: str
    k: int
    accept: tuple[float, ...] = ()
    per_batch_size: tuple[tuple[int, int, int], ...] = ()


class WaitingOption(Node, frozen=True, tag="waiting_option"):
    """An option of a built-in waiting queue, under its upstream name."""

    name: str
    value: float


class SchedulerOption(Node, frozen=True, tag="scheduler_option"):
    """An option of a scheduler, under its upstream name; a switch is 0 or 1."""

    name: str
    value: float | str


class Waiting(Node, frozen=True, tag="waiting"):
    """The order of the waiting queue; ``keys`` belong to `by`, ascending."""

    kind: Literal["fcfs", "priority", "by", "short_request_first", "batch_job_aware"] = "fcfs"
    keys: tuple[Expr, ...] = ()
    options: tuple[WaitingOption, ...] = ()


class Layout(Node, frozen=True, tag="layout"):
    """How steps lie on the device; None means the layout's default (V-065 to V-078)."""

    kind: Literal["vllm_ascend", "sglang"] = "vllm_ascend"
    device: Literal["A2", "A3", "A5", "P310"] | None = None
    cudagraph_mode: Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"] | None = (
        None
    )
    enforce_eager: bool | None = None
    cudagraph_capture_sizes: tuple[int, ...] = ()
    max_cudagraph_capture_size: int | None = None
    tensor_parallel_size: int | None = None
    enable_sp: bool | None = None


class Via(Node, frozen=True, tag="via"):
    """`cost via NAME`: steps are priced by that executor."""

    executor: str


class ExecutorOption(Node, frozen=True, tag="executor_option"):
    """An option of an executor; an expression is evaluated anew for every step that is priced."""

    name: str
    value: bool | int | float | str | Expr


class Executor(Node, frozen=True, tag="executor"):
    """`executor name : kind { … }`: what prices steps (docs/executors.md)."""

    name: str
    kind: str
    options: tuple[ExecutorOption, ...] = ()

    def option(self, name: str) -> ExecutorOption | None:
        """The option ``name``, where it is written."""
        return next((option for option in self.options if option.name == name), None)


class Vllm(Node, frozen=True, tag="vllm"):
    """An engine whose decisions are those of vLLM 0.27.1's V1 scheduler (S-001 to S-150)."""

    cost: Expr | Via
    num_gpu_blocks: int | None
    """None: what ``gpu_memory_utilization`` leaves, as the executor of the cost knows it."""
    max_model_len: int
    gpu_memory_utilization: float | None = None
    max_num_batched_tokens: int | None = None
    max_num_scheduled_tokens: int | None = None
    max_num_seqs: int | None = None
    block_size: int | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    long_prefill_token_threshold: int | None = None
    async_scheduling: bool | None = None
    scheduler_reserve_full_isl: bool | None = None
    watermark: float | None = None
    prefix_match_unit: int | None = None
    retention_interval: int | None = None
    prefill_schedule_interval: int | None = None
    v2_model_runner: bool | None = None
    data_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    kv_connector: str | None = None
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] | None = None
    kv_load_failure_policy: Literal["recompute", "fail"] | None = None
    scheduler: Literal["default", "recompute", "profiling_chunk", "balance", "dyntra_lb"] | None = None
    scheduler_options: tuple[SchedulerOption, ...] = ()
    groups: tuple[KVCacheGroup, ...] = ()
    speculative: Speculative | None = None
    waiting: Waiting = Waiting()
    layout: Layout = Layout()


class Prefix(Node, frozen=True, tag="prefix"):
    """The first ``tokens`` prompt tokens are those of text ``text``."""

    text: Expr
    tokens: Expr


class FetchedFrom(Node, frozen=True, tag="fetched_from"):
    """The prompt is that of request ``handle``, its KV fetched over ``connector``."""

    handle: str
    connector: str


class Request(Statement, frozen=True, tag="request"):
    """`request handle on stage (p, o) ...`: send one request and wait until it ends.

    ``prompt_tokens`` new prompt tokens, ``output_tokens`` the length at which the model would stop. None
    means that the clause is not written.
    """

    handle: str
    stage: StageRef
    prompt_tokens: Expr
    output_tokens: Expr
    follows: str | None = None
    """The handle whose prompt and outputs this prompt begins with; it may be ``handle`` itself."""
    fetched: FetchedFrom | None = None
    prefix: Prefix | None = None
    traced: bool = False
    """The prompt's identity is that of the trace's hash ids (512 tokens each)."""
    abort_after: Expr | None = None
    label: Expr | None = None
    """`class (e)`: what results and objectives group the request by."""
    priority: Expr | None = None
    max_tokens: Expr | None = None
    min_tokens: Expr | None = None
    job: Expr | None = None
    immediate: Expr | None = None
    skip_reading_prefix_cache: Expr | None = None
    """1: it looks nothing up in the prefix cache, and is cached all the same (S-070)."""
    accept: tuple[Expr, ...] = ()
    """The chance that draft i is taken, given those before it; empty: the engine's own."""


class Connector(Node, frozen=True, tag="connector"):
    """`connector name : transfer`: how KV moves; a transfer is work on the base-language stage ``over``."""

    name: str
    over: StageRef
    work: Expr
    latency: Expr | None = None
    fail: Expr | None = None
    late: Expr | None = None
    offload_blocks: int = 0
    """Blocks in host memory, at every engine, for the offloads of `scheduler recompute`."""
    release_after: float = 480.0
    """Seconds after which blocks that nobody fetches are given up by the engine that keeps them."""


class Gauge(Node, frozen=True, tag="gauge"):
    """`gauge name = e`: a time-weighted figure of live state over [warm-up, end]."""

    name: str
    value: Expr
