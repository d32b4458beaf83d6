"""Engines of vLLM, requests to them, connectors and gauges (design_language.md, S-002 to S-004)."""

from __future__ import annotations

from serq.ir.engine_options import (
    ENGINE_OPTIONS,
    GROUP_KINDS,
    GROUP_OPTIONS,
    GROUP_REQUIRED,
    LAYOUT_OPTIONS,
    SPECULATIVE_METHODS,
    SPECULATIVE_OPTIONS,
    WAITING_OPTIONS,
    EngineOption,
)
from serq.ir.executor_options import EXECUTOR_KINDS
from serq.ir.fold import constant
from serq.ir.moments import Moment
from serq.ir.nodes import Node, Stage, Step
from serq.ir.printer import number
from serq.ir.serving import Connector, KVCacheGroup, Layout, Speculative, Via, Vllm, Waiting
from serq.ir.validate.executors import check_executor
from serq.ir.validate.expressions import Expressions
from serq.ir.validate.index import Index
from serq.ir.validate.problem import Findings
from serq.ir.validate.roles import check_offloads, check_role
from serq.ir.validate.schedulers import check_scheduler


class Engines:
    """Checks the engines, the connectors and the gauges of a program."""

    def __init__(self, index: Index, findings: Findings, expressions: Expressions) -> None:
        self._index = index
        self._findings = findings
        self._expressions = expressions

    def check(self) -> None:
        """Everything of the serving language but the requests."""
        program = self._index.program
        for stage in program.stages:
            with self._findings.inside(f"stage `{stage.name}`"):
                if isinstance(stage.kind, Vllm):
                    self._engine(stage, stage.kind)
                if isinstance(stage.kind, Vllm | Step) and isinstance(stage.kind.cost, Via):
                    self._via(stage.kind, stage.kind.cost)
        for connector in program.connectors:
            with self._findings.inside(f"connector `{connector.name}`"):
                self._connector(connector)
        for gauge in program.gauges:
            with self._findings.inside(f"gauge `{gauge.name}`"):
                self._expressions.check(gauge.value, Moment.GAUGE)
        for executor in program.executors:
            with self._findings.inside(f"executor `{executor.name}`"):
                check_executor(executor, self._findings, self._expressions)
        for what, nodes in (
            ("connector", program.connectors),
            ("gauge", program.gauges),
            ("executor", program.executors),
        ):
            seen: set[str] = set()
            for node in nodes:
                if node.name in seen:
                    self._findings.error("E219", f"{what} `{node.name}` is declared twice", node)
                seen.add(node.name)

    # --- engines ---

    def _engine(self, stage: Stage, engine: Vllm) -> None:
        if not isinstance(engine.cost, Via):
            self._expressions.check(engine.cost, Moment.ENGINE_COST)
        for name, option in ENGINE_OPTIONS.items():
            self._option(engine, name, option)
        self._blocks(stage, engine)
        self._combinations(stage, engine)
        check_role(engine, self._findings)
        for group in engine.groups:
            self._group(group)
        if engine.speculative is not None:
            self._speculative(engine.speculative)
        self._waiting(engine.waiting)
        self._layout(engine.layout)
        check_scheduler(engine, self._findings)
        if engine.kv_connector is not None and engine.kv_role is None:
            message = f"`kv_connector` needs `kv_role`: {ENGINE_OPTIONS['kv_role'].meaning}"
            help_ = "add `kv_role kv_producer;`, `kv_role kv_consumer;` or `kv_role kv_both;`"
            self._findings.error("E217", message, engine, "kv_connector", help=help_)
        if engine.kv_connector is not None and engine.kv_connector not in self._index.connectors:
            message = f"unknown connector `{engine.kv_connector}`"
            help_ = f"declare it: `connector {engine.kv_connector} : transfer {{ over STAGE; work …; }}`"
            self._findings.error("E401", message, engine, "kv_connector", help=help_, whole=True)

    def _via(self, stage: Vllm | Step, via: Via) -> None:
        executor = self._index.executors.get(via.executor)
        if executor is None:
            message = f"unknown executor `{via.executor}`"
            help_ = f"declare it: `executor {via.executor} : KIND {{ … }}`"
            self._findings.error("E401", message, via, help=help_, whole=True)
            return
        kind = EXECUTOR_KINDS.get(executor.kind)
        if isinstance(stage, Step) and kind is not None and not kind.prices_totals:
            able = ", ".join(f"`{other.name}`" for other in EXECUTOR_KINDS.values() if other.prices_totals)
            message = (
                f"`cost via {via.executor}`: a `{kind.name}` executor prices the rows of a step, and a "
                "step stage knows only their totals"
            )
            help_ = f"use a vllm stage, or an executor of kind {able}"
            self._findings.error("E438", message, via, help=help_)

    def _blocks(self, stage: Stage, engine: Vllm) -> None:
        """The size of the KV cache is said, or the executor of the cost knows it."""
        if engine.num_gpu_blocks is not None:
            if engine.gpu_memory_utilization is not None:
                message = "`gpu_memory_utilization` has no effect beside `num_gpu_blocks`"
                self._findings.error("E433", message, engine, "gpu_memory_utilization", help="leave one out")
            return
        via = engine.cost.executor if isinstance(engine.cost, Via) else None
        executor = None if via is None else self._index.executors.get(via)
        kind = None if executor is None else EXECUTOR_KINDS.get(executor.kind)
        if kind is not None and kind.knows_memory:
            return
        help_ = "add `num_gpu_blocks …;`"
        if engine.gpu_memory_utilization is not None:
            help_ += ": only an executor that knows model and device can compute it"
        message = f"stage `{stage.name}` needs `num_gpu_blocks`: blocks of the KV cache"
        self._findings.error("E217", message, stage, help=help_)

    def _option(self, node: Node, name: str, option: EngineOption) -> None:
        value = getattr(node, name)
        fault = option.fault(value) if isinstance(value, int | float) else None
        if fault is not None:
            self._findings.error("E433", f"`{name}` must be {fault}, not {value:g}", node, name)

    def _combinations(self, stage: Stage, engine: Vllm) -> None:
        """What vLLM's own configuration refuses (S-003), and the size of a data-parallel group."""
        tokens = engine.max_num_batched_tokens or 2048
        seqs = engine.max_num_seqs or 128
        error = self._findings.error
        if tokens < seqs:
            message = f"`max_num_batched_tokens` ({tokens}) must be at least `max_num_seqs` ({seqs})"
            part = "max_num_batched_tokens" if engine.max_num_batched_tokens else "max_num_seqs"
            error("E433", message, engine, part)
        if engine.enable_chunked_prefill is False and tokens < engine.max_model_len:
            message = (
                f"without chunked prefill `max_num_batched_tokens` ({tokens}) must reach `max_model_len` "
                f"({engine.max_model_len})"
            )
            error("E433", message, engine, "enable_chunked_prefill")
        if (engine.long_prefill_token_threshold or 0) > engine.max_model_len:
            message = (
                f"`long_prefill_token_threshold` must not exceed {engine.max_model_len}, `max_model_len`"
            )
            error("E433", message, engine, "long_prefill_token_threshold")
        ranks = engine.data_parallel_size or 1
        if ranks not in (1, stage.count):
            message = (
                f"`data_parallel_size {ranks}`: `{stage.name}` has {stage.count} members, one for each rank"
            )
            help_ = f"write `stage {stage.name}[{ranks}] : vllm`"
            error("E433", message, engine, "data_parallel_size", help=help_)

    def _group(self, group: KVCacheGroup) -> None:
        for name, option in GROUP_OPTIONS.items():
            self._option(group, name, option)
            default = type(group).__struct_defaults__[group.__struct_fields__.index(name) - 1]
            if name not in GROUP_KINDS[group.kind] and getattr(group, name) != default:
                self._findings.error("E222", f"a `{group.kind}` group has no option `{name}`", group)
        required = GROUP_REQUIRED.get(group.kind)
        if required is not None and getattr(group, required) is None:
            message = f"a `{group.kind}` group needs `{required}`"
            self._findings.error(
                "E217", message, group, help=f"write `group {group.kind} {{ {required} …; }}`"
            )

    def _speculative(self, node: Speculative) -> None:
        if node.method not in SPECULATIVE_METHODS:
            message = (
                f"a method of speculation is one of {', '.join(SPECULATIVE_METHODS)}, not `{node.method}`"
            )
            self._findings.error("E225", message, node)
        self._option(node, "k", SPECULATIVE_OPTIONS["k"])
        if any(not 0 <= chance <= 1 for chance in node.accept):
            self._findings.error("E433", "the chances of `accept` lie between 0 and 1", node)
        if len(node.accept) > node.k:
            message = f"`accept` has {len(node.accept)} chances for {node.k} drafts"
            self._findings.error("E433", message, node)
        end = 0
        for low, high, drafts in sorted(node.per_batch_size):
            if low <= end or high < low or drafts < 0 or (end == 0 and low != 1):
                message = "the ranges of `per_batch_size` begin at 1, do not overlap, and are not empty"
                self._findings.error("E433", message, node)
                return
            end = high

    def _waiting(self, waiting: Waiting) -> None:
        self._expressions.check_all(waiting.keys, Moment.WAITING_KEY)
        if (waiting.kind == "by") != bool(waiting.keys):
            message = "`waiting by` needs keys, and no other order takes any"
            self._findings.error("E225", message, waiting)
        table = WAITING_OPTIONS.get(waiting.kind, {})
        for option in waiting.options:
            known = table.get(option.name)
            if known is None:
                message = f"`waiting {waiting.kind}` has no option `{option.name}`"
                self._findings.error("E222", message, waiting)
            elif (fault := known.fault(option.value)) is not None:
                message = f"`{option.name}` must be {fault}, not {option.value:g}"
                self._findings.error("E433", message, waiting)

    def _layout(self, layout: Layout) -> None:
        table = LAYOUT_OPTIONS[layout.kind]
        for name in layout.__struct_fields__[1:]:
            if name in table:
                self._option(layout, name, table[name])
            elif getattr(layout, name) not in (None, ()):
                self._findings.error("E222", f"`layout {layout.kind}` has no option `{name}`", layout)
        if any(size < 1 for size in layout.cudagraph_capture_sizes):
            self._findings.error("E433", "`cudagraph_capture_sizes` must be at least 1", layout)

    # --- connectors ---

    def _connector(self, connector: Connector) -> None:
        check = self._expressions.check
        self._expressions.reference(connector.over, Moment.CONNECTOR)
        for part in (connector.work, connector.latency, connector.fail, connector.late):
            check(part, Moment.CONNECTOR)
        for name in ("latency", "late"):
            self._duration(connector, name)
        if connector.offload_blocks < 0:
            message = f"`offload_blocks` must be at least 0, not {connector.offload_blocks}"
            self._findings.error("E433", message, connector, "offload_blocks")
        if not connector.release_after >= 0:
            message = f"`release_after` must be at least 0, not {connector.release_after:g}"
            self._findings.error("E433", message, connector, "release_after")
        check_offloads(connector, self._index.program, self._findings)
        target = self._index.stages.get(connector.over.name)
        if target is not None and isinstance(target.kind, Vllm | Step):
            message = f"a transfer cannot run over `{target.name}`, which is an engine"
            help_ = "a transfer is work at a `fifo`, `ps` or `delay` stage"
            self._findings.error("E434", message, connector.over, help=help_)

    def _duration(self, connector: Connector, name: str) -> None:
        """A constant delay is an amount; others are looked at when they have a value."""
        value = getattr(connector, name)
        seconds = None if value is None else constant(value)
        if seconds is not None and not seconds >= 0:
            message = f"`{name}` must not be negative or NaN, and this is {number(seconds)}"
            self._findings.error("E412", message, connector, name)
