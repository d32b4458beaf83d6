"""From the options of a `torch` or `torch_npu` executor to the object that measures steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from importlib.util import find_spec

from serq import __version__
from serq.kernels.ascend.graph_mode import DeviceFamily, GraphOptions
from serq.kernels.ascend.layout import AscendLayoutEngine, AscendLayoutOptions
from serq.kernels.catalogue.devices import Device
from serq.kernels.layout import LayoutEngine
from serq.kernels.measuring.bench import Bench, Repeats, TorchBench
from serq.kernels.measuring.executor import COLLECTIVES, Measurement, MeasuringExecutor
from serq.kernels.measuring.npu_bench import NOT_RUN, NpuBench
from serq.kernels.measuring.operators import OperatorPlan
from serq.kernels.measuring.store import MeasuredTables
from serq.kernels.registry import BuiltExecutor, ExecutorOptions, Origin, PricedStage, Setting
from serq.kernels.roofline.factory import device_of, model_of
from serq.kernels.roofline.laid_out import ASCEND_FAMILIES
from serq.kernels.roofline.machine import Machine
from serq.kernels.roofline.operators import Attention, Operators
from serq.kernels.roofline.shard import Shard
from serq.kernels.sglang.layout import SglangLayoutEngine, SglangLayoutOptions
from serq.kernels.tables.sidecar import Provenance
from serq.kernels.work import NOTHING, Work

FLUSH_BYTES = 2**28
"""More than the last-level cache of any device of the catalogue (192 MiB of an A2)."""

LONGEST_CONTEXT = 2**17
"""Tokens of the block tables where a stage has no longest request."""


def build_torch(options: ExecutorOptions, stage: PricedStage) -> BuiltExecutor:
    """Reference operators with torch. Raises RunError without torch, or for what cannot be shared."""
    return _torch_build(options, stage).executor()


def measurement_of(kind: str, options: ExecutorOptions, stage: PricedStage) -> Measurement:
    """What an executor of a measuring kind would measure with. Raises RunError as its factory does."""
    build = _torch_build if kind == "torch" else _npu_build
    return build(options, stage).measurement()


def _torch_build(options: ExecutorOptions, stage: PricedStage) -> _Build:
    check_torch(options)
    device = options.text("device")
    if find_spec("torch") is None:
        raise options.fault("it needs torch", "pip install 'serq[torch]'")
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise options.fault("torch finds no CUDA device", 'write `device "cpu";`, or leave it out')
    bench = TorchBench(device, _repeats(options, on_device=device != "cpu"))
    return _Build(options, stage, bench, None)


def build_npu(options: ExecutorOptions, stage: PricedStage) -> BuiltExecutor:
    """The operators of an Ascend NPU. Raises RunError without torch_npu or a device."""
    return _npu_build(options, stage).executor()


def _npu_build(options: ExecutorOptions, stage: PricedStage) -> _Build:
    check_npu(options)
    bench = NpuBench(_repeats(options, on_device=True))
    return _Build(options, stage, bench, device_of(options))


def check_torch(options: ExecutorOptions) -> None:
    """Raise RunError for an unknown model, and for ranks that cannot share it.

    How many engines share the routed experts may depend on the stage: then only the names are looked at.
    """
    model = model_of(options)
    if not model.num_experts or options.written("data_parallel_size"):
        _shard(options, PricedStage(options.name))
    if options.text("kv_cache_dtype") == "int8" and model.head_dim % 32:
        raise options.fault("an int8 cache needs heads of a multiple of 32")


def check_npu(options: ExecutorOptions) -> None:
    """The same, and a device that is an NPU."""
    check_torch(options)
    device = device_of(options)
    if device.family not in ASCEND_FAMILIES:
        raise options.fault(f"{device.name} is no Ascend device", "measure it with an executor `torch`")


def _shard(options: ExecutorOptions, stage: PricedStage) -> Shard:
    ranks = options.count("data_parallel_size") if options.written("data_parallel_size") else None
    shard = Shard(
        model_of(options),
        options.count("tensor_parallel_size"),
        ranks or stage.data_parallel_size,
        options.switch("enable_expert_parallel"),
    )
    fault = shard.fault()
    if fault is not None:
        raise options.fault(*fault)
    if _exchanges(shard) and not options.written("link_bandwidth"):
        raise options.fault(
            "ranks exchange data, which one device cannot measure",
            "say the link: `link_bandwidth 1e11;` (bytes a second, one way)",
        )
    for name in ("link_bandwidth", "link_latency"):
        if options.written(name) and not _exchanges(shard):
            raise options.fault(f"`{name}` is given, and one rank exchanges nothing", f"drop `{name}`")
    return shard


def _exchanges(shard: Shard) -> bool:
    """Whether ranks send each other anything."""
    return shard.tensor_parallel_size > 1 or (shard.model.num_experts > 0 and shard.expert_ranks > 1)


def _repeats(options: ExecutorOptions, on_device: bool) -> Repeats:
    flush = options.count("flush_bytes") if options.written("flush_bytes") else FLUSH_BYTES * on_device
    return Repeats(options.count("warmup"), options.count("repeats"), flush)


class _Build:
    """One executor in the making; ``device`` is that of the catalogue where there is one."""

    def __init__(
        self, options: ExecutorOptions, stage: PricedStage, bench: Bench, device: Device | None
    ) -> None:
        self._options, self._stage, self._bench, self._device = options, stage, bench, device
        self._shard = _shard(options, stage)

    def executor(self) -> BuiltExecutor:
        """The executor, and what its prices rest on."""
        origin = Origin(self._options.text("tables"), self._bench.device_name, "")
        executor = MeasuringExecutor(self.measurement())
        return BuiltExecutor(executor, tuple(self._settings(self._layout()[0])), origins=(origin,))

    def measurement(self) -> Measurement:
        """What runs, on what, and where it is kept."""
        options, stage = self._options, self._stage
        kind, layout = self._layout()
        plan = OperatorPlan(
            self._shard,
            options.text("dtype"),
            int8_cache=options.text("kv_cache_dtype") == "int8",
            num_speculative_tokens=stage.num_speculative_tokens,
            pads=kind == "vllm_ascend",
        )
        folder = stage.folder / options.text("tables")
        dimensions: dict[str, str | int] = {
            "model": self._shard.model.name,
            "tensor_parallel_size": self._shard.tensor_parallel_size,
            "data_parallel_size": self._shard.data_parallel_size,
            "enable_expert_parallel": str(self._shard.expert_parallel).lower(),
            "num_heads": self._shard.num_heads,
            "num_kv_heads": self._shard.num_kv_heads,
            "head_dim": self._shard.model.head_dim,
            "dtype": plan.dtype,
            "kv_cache_dtype": options.text("kv_cache_dtype"),
            "layout": f"{kind}: {self._layout_text(layout)}",
            "num_speculative_tokens": stage.num_speculative_tokens,
        }
        if options.written("attention"):
            dimensions["attention"] = options.text("attention")
        tables = MeasuredTables(folder, self._provenance(), dimensions)
        step = options.count("context_step")
        return Measurement(plan, layout, self._bench, tables, step, self._collectives())

    # --- the layout -------------------------------------------------------------------------------------

    def _layout(self) -> tuple[str, LayoutEngine]:
        """Its name and its engine: that of the stage, or the one that the executor names."""
        options, stage = self._options, self._stage
        named = options.text("layout") if options.written("layout") else None
        own = None
        if stage.layout is not None:
            own = "sglang" if isinstance(stage.layout, SglangLayoutEngine) else "vllm_ascend"
        if named is not None and own is not None and named != own:
            message = f"`layout {named}`, and stage `{stage.name}` says `layout {own}`"
            raise options.fault(message, "say it once")
        if own is not None and options.written("attention"):
            raise options.fault("the layout of the stage says how attention is called", "drop `attention`")
        kind = named or own or ("plain" if self._device is None else "vllm_ascend")
        return kind, self._engine(kind)

    def _engine(self, kind: str) -> LayoutEngine:
        """Block tables as wide as contexts that are rounded up need."""
        stage, step = self._stage, self._options.count("context_step")
        length = -(-(stage.max_model_len or LONGEST_CONTEXT) // step) * step
        if isinstance(stage.layout, SglangLayoutEngine):
            return SglangLayoutEngine(replace(stage.layout.options, max_model_len=length))
        if isinstance(stage.layout, AscendLayoutEngine):
            return AscendLayoutEngine(replace(stage.layout.options, max_model_len=length))
        family = self._family()
        if kind == "sglang":
            return SglangLayoutEngine(SglangLayoutOptions(length, family))
        graphs = GraphOptions(
            max_num_seqs=stage.max_num_seqs or 128,
            max_num_batched_tokens=stage.max_num_batched_tokens or 2048,
            num_speculative_tokens=stage.num_speculative_tokens,
            device=family,
            enforce_eager=kind == "plain",
            tensor_parallel_size=self._shard.tensor_parallel_size,
        )
        return AscendLayoutEngine(
            AscendLayoutOptions(
                graphs,
                length,
                speculative_method=stage.speculative_method,
                chunked_prefill=stage.chunked_prefill,
            )
        )

    def _family(self) -> DeviceFamily:
        """Ascend 950 makes two attention calls of a mixed step, its elders one (V-085)."""
        own = DeviceFamily.A2 if self._device is None else ASCEND_FAMILIES[self._device.family]
        if not self._options.written("attention"):
            return own
        if self._options.text("attention") == "split":
            return DeviceFamily.A5
        return DeviceFamily.A2 if own is DeviceFamily.A5 else own

    @staticmethod
    def _layout_text(layout: LayoutEngine) -> str:
        """All that the calls depend on, the length of block tables left out."""
        if isinstance(layout, SglangLayoutEngine):
            return f"device {layout.options.device.value}, split {layout.options.split_mixed}"
        assert isinstance(layout, AscendLayoutEngine)
        options = layout.options
        graphs = options.graphs
        mode = "eager" if graphs.enforce_eager else f"{graphs.max_num_seqs}/{graphs.max_num_batched_tokens}"
        named = "default" if graphs.mode is None else graphs.mode.name.lower()
        return (
            f"device {graphs.device.value}, graphs {mode} {named} {graphs.capture_sizes or ''}, "
            f"paged {options.paged_sizes or 'none'}, speculative {options.speculative_method or 'none'}, "
            f"chunked prefill {options.chunked_prefill}"
        )

    # --- the rest ---------------------------------------------------------------------------------------

    def _collectives(self) -> Callable[[int], float] | None:
        """Seconds of the exchange between ranks by tokens, over the link that the program gives."""
        options, shard = self._options, self._shard
        if not _exchanges(shard):
            return None
        link, latency = options.number("link_bandwidth"), options.number("link_latency")
        machine = Machine(1.0, 1.0, 1.0, 1.0, 0.0, link=link, link_latency=latency)
        width = 4.0 if options.text("dtype") == "float32" else 2.0
        operators = Operators(shard, machine, Attention(None), activation_bytes=width).all()
        found = next(operator for operator in operators if operator.name == COLLECTIVES)
        return lambda tokens: found.seconds(Work(tokens, NOTHING, NOTHING))

    def _provenance(self) -> Provenance:
        device = "" if self._device is None else self._device.name
        return Provenance(
            device=device or self._bench.device_name,
            measured_by=f"serq {__version__}",
            software=self._bench.software,
            soc=self._bench.device_name if device else "",
            date=date.today().isoformat(),
            method=_repeats(self._options, on_device=self._options.text("device") != "cpu").text(),
        )

    def _settings(self, kind: str) -> Iterator[Setting]:
        options, shard, bench = self._options, self._shard, self._bench
        software = ", ".join(f"{name} {version}" for name, version in bench.software.items())
        written = options.source
        yield Setting("model", f"{shard.model.name}, TP {shard.tensor_parallel_size}", shard.model.source)
        yield Setting("device", bench.device_name, software)
        yield Setting("dtype", options.text("dtype"), written("dtype"))
        yield Setting("kv_cache_dtype", options.text("kv_cache_dtype"), written("kv_cache_dtype"))
        yield Setting("layout", kind, "the program" if self._stage.layout else written("layout"))
        yield Setting("context_step", f"{options.count('context_step')} tokens", written("context_step"))
        yield Setting("timing", self._provenance().method, written("repeats"))
        yield Setting("tables", options.text("tables"), "only a run from these tables is reproducible")
        if _exchanges(shard):
            for name in ("link_bandwidth", "link_latency"):
                yield Setting(name, f"{options.number(name):g}", written(name))
        if self._device is not None:
            yield Setting("caution", NOT_RUN, "docs/executors.md")
