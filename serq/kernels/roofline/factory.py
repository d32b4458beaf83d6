"""From the options of a `roofline` executor to the object that prices steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from serq.kernels.catalogue import unknown
from serq.kernels.catalogue.devices import GIB, Device, devices
from serq.kernels.catalogue.models import ModelShape, models
from serq.kernels.executor import Evidence, OperatorPrice
from serq.kernels.fia.attention import HEAD_DIMS, MeasuredAttention, SplitRule, split_rule
from serq.kernels.fia.model import FITTED
from serq.kernels.fia.points import ORIGIN, SOURCE, Heads
from serq.kernels.memory.budget import MemoryTerms
from serq.kernels.registry import BuiltExecutor, ExecutorOptions, Origin, PricedStage, Rule, Setting
from serq.kernels.roofline.calibration import Calibration, read_calibration
from serq.kernels.roofline.executor import Priced, RooflineExecutor, assumed, fitted
from serq.kernels.roofline.laid_out import laying_of
from serq.kernels.roofline.machine import Machine
from serq.kernels.roofline.memory import RooflineMemory
from serq.kernels.roofline.operators import GROUPS, Attention, Operators
from serq.kernels.roofline.shard import Shard
from serq.kernels.work import Work

BYTES: Final = {"bfloat16": 2.0, "int8": 1.0, "float8": 1.0}
"""Element type -> bytes."""


def model_of(options: ExecutorOptions) -> ModelShape:
    """The model that ``model`` names. Raises RunError for one that the catalogue lacks."""
    name = options.text("model")
    if name not in models():
        raise options.fault(f"unknown model `{name}`", unknown("model", name, models()))
    return models()[name]


def device_of(options: ExecutorOptions) -> Device:
    """The device that ``device`` names. Raises RunError for one that the catalogue lacks."""
    name = options.text("device")
    if name not in devices():
        raise options.fault(f"unknown device `{name}`", unknown("device", name, devices()))
    return devices()[name]


def build(options: ExecutorOptions, stage: PricedStage) -> BuiltExecutor:
    """The roofline of a model on a device. Raises RunError for what cannot be shared, held or named."""
    return _Build(options, stage).executor()


def check(options: ExecutorOptions) -> None:
    """Raise RunError for a model or a device that is unknown, and for ranks that cannot share or hold it.

    How many engines share the routed experts may depend on the stage: then only the names are looked at.
    """
    model = model_of(options)
    device_of(options)
    if not model.num_experts or options.written("data_parallel_size"):
        _Build(options, PricedStage(options.name))


class _Build:
    """One executor in the making."""

    def __init__(self, options: ExecutorOptions, stage: PricedStage) -> None:
        self._options = options
        self._stage = stage
        self._device = device_of(options)
        ranks = options.count("data_parallel_size") if options.written("data_parallel_size") else None
        self._shard = Shard(
            model_of(options),
            options.count("tensor_parallel_size"),
            ranks or stage.data_parallel_size,
            options.switch("enable_expert_parallel"),
        )
        fault = self._shard.fault()
        if fault is not None:
            raise options.fault(*fault)
        self._weight_bytes = BYTES[options.text("weight_dtype")]
        self._settings: list[Setting] = []
        self._origins: list[Origin] = []
        self._check_memory()

    def executor(self) -> BuiltExecutor:
        """The executor, and what its prices rest on."""
        self._name_what_it_is()
        laying = laying_of(self._options, self._stage, self._shard, self._device)
        self._settings.append(laying.setting)
        machine, calibration = self._machine(), self._calibration()
        operators = self._operators(machine, calibration)
        priced: list[Priced] = []
        for operator in operators.all():
            fit = None if calibration is None else calibration.group(operator.group)
            if operator.name == "attention" and self._options.written("attention_table"):
                priced.append(self._measured_attention().price)
            elif fit is not None and not self._options.written(f"{operator.group}_efficiency"):
                priced.append(fitted(operator, fit))
            else:
                priced.append(assumed(operator))
        priced.extend(self._overheads())
        return BuiltExecutor(
            RooflineExecutor(priced, laying.laying),
            tuple(self._settings),
            self._memory(),
            tuple(self._origins),
        )

    # --- figures, each with its source ------------------------------------------------------------------

    def _figure(self, option: str, default: float, source: str, unit: str = "") -> float:
        """What the program says, else the catalogue's figure."""
        value = self._options.optional_number(option)
        told = self._options.written(option)
        value = default if value is None else value
        text = f"{value:.6g} {unit}".rstrip()
        self._settings.append(Setting(option, text, "the program" if told else source))
        return value

    def _name_what_it_is(self) -> None:
        shard, device = self._shard, self._device
        shares = f"TP {shard.tensor_parallel_size}"
        if shard.data_parallel_size > 1:
            shares += f", DP {shard.data_parallel_size}"
        if shard.expert_parallel:
            shares += f", EP {shard.expert_ranks}"
        self._settings += [
            Setting("model", f"{shard.model.name}, {shares}", shard.model.source),
            Setting("device", device.name, device.source),
        ]
        for name in ("weight_dtype", "kv_cache_dtype"):
            self._settings.append(Setting(name, self._options.text(name), self._options.source(name)))

    def _machine(self) -> Machine:
        device, figure = self._device, self._figure
        link = 0.0
        machine = {
            "operations": figure("peak_operations", device.bf16, device.source, "1/s"),
            "bandwidth": figure("memory_bandwidth", device.bandwidth, device.bandwidth_source, "B/s"),
            "compute_efficiency": figure(
                "compute_efficiency", device.compute_efficiency, device.efficiency_source
            ),
            "memory_efficiency": figure(
                "memory_efficiency", device.memory_efficiency, device.efficiency_source
            ),
            "overhead": figure("kernel_overhead", device.kernel_overhead, device.efficiency_source, "s"),
        }
        if max(self._shard.tensor_parallel_size, self._shard.expert_ranks) > 1:
            if device.link is None and not self._options.written("link_bandwidth"):
                message = f"several ranks exchange data, and no source states the link of {device.name}"
                raise self._options.fault(message, "say it: `link_bandwidth 1e11;` (bytes a second, one way)")
            link = figure("link_bandwidth", device.link or 0.0, device.link_source, "B/s")
            link *= figure("link_efficiency", device.link_efficiency or 1.0, device.efficiency_source)
            machine["link_latency"] = figure("link_latency", 0.0, "default", "s")
        return Machine(link=link, **machine)

    def _calibration(self) -> Calibration | None:
        if not self._options.written("calibration"):
            return None
        file = self._options.text("calibration")
        calibration = read_calibration(self._stage.folder / file)
        self._origins.append(calibration.provenance.origin(file))
        for name in GROUPS:
            fit = calibration.group(name)
            if fit is not None:
                text = f"{fit.efficiency:.6g} for {fit.tokens[0]:g} to {fit.tokens[1]:g} tokens"
                self._settings.append(Setting(f"{name}_efficiency", text, calibration.provenance.text()))
        return calibration

    def _operators(self, machine: Machine, calibration: Calibration | None) -> Operators:
        efficiency: dict[str, float] = {}
        for name in GROUPS:
            fit = None if calibration is None else calibration.group(name)
            if self._options.written(f"{name}_efficiency"):
                efficiency[name] = self._figure(f"{name}_efficiency", 1.0, "")
            elif fit is not None:
                efficiency[name] = fit.efficiency
        dtype = self._options.text("weight_dtype")
        peak = {"bfloat16": None, "int8": self._device.int8, "float8": self._device.fp8}[dtype]
        if dtype == "float8" and peak is None:
            raise self._options.fault(f"{self._device.name} has no float8 arithmetic")
        return Operators(
            self._shard,
            machine,
            self._attention(),
            weight_bytes=self._weight_bytes,
            cache_bytes=BYTES[self._options.text("kv_cache_dtype")],
            weight_peak=peak,
            efficiency=efficiency,
        )

    # --- attention --------------------------------------------------------------------------------------

    def _split_rule(self) -> SplitRule:
        if self._options.written("attention"):
            return split_rule(self._options.rule("attention"))
        return split_rule("split" if self._device.family == "A5" else "mixed")

    def _attention(self) -> Attention:
        written = self._options.written("attention")
        default = "split" if self._device.family == "A5" else "mixed"
        form = self._options.rule("attention") if written else default
        text = form if isinstance(form, str) else "an expression"
        self._settings.append(Setting("attention", text, self._options.source("attention")))
        dim = self._shard.model.head_dim
        measured = self._options.written("attention_table")
        if measured or self._device.family != "A5" or dim not in HEAD_DIMS:
            return Attention(self._split_rule())
        alone, mixed = FITTED.decode_head[dim], FITTED.mixed_decode_head[dim]
        for name, value in (("decode_head", alone), ("mixed_decode_head", mixed)):
            self._settings.append(Setting(name, f"{value:.4g} s a query head and token", SOURCE))
        return Attention(self._split_rule(), alone, mixed)

    def _measured_attention(self) -> MeasuredAttention:
        shard, dim = self._shard, self._shard.model.head_dim
        if dim not in HEAD_DIMS:
            raise self._options.fault(f"`attention_table` has no head dimension {dim}, only 128 and 256")
        self._settings.append(Setting("attention_table", self._options.text("attention_table"), SOURCE))
        self._origins.append(ORIGIN)
        heads = Heads(shard.num_heads, shard.num_kv_heads, dim)
        layers = shard.model.full_attention_layers
        return MeasuredAttention(heads, layers, shard.tensor_parallel_size, self._split_rule())

    # --- around the model -------------------------------------------------------------------------------

    def _overheads(self) -> Iterator[Priced]:
        """Time of the host and of the front end beside that of the device; off unless the program says it."""
        counts: dict[str, Callable[[Work], float]] = {
            "scheduler_overhead": lambda work: work.rows,
            "tokenizer_overhead": lambda work: work.prefills.tokens,
            "api_server_overhead": lambda work: work.rows,
        }
        host = self._options.quantity("host_overhead")
        if callable(host):
            self._settings.append(Setting("host_overhead", "an expression", "the program"))
            yield _host_overhead(self._options, host)
        else:
            counts = {"host_overhead": lambda work: 1.0, **counts}
        for name, count in counts.items():
            seconds = self._figure(name, 0.0, "default: off", "s")
            if seconds:
                yield _overhead(name, seconds, count)

    def _memory(self) -> RooflineMemory:
        """What is left for a KV cache, to be computed when a stage asks."""
        options, number = self._options, self._options.optional_number
        terms = MemoryTerms(
            max_num_batched_tokens=self._stage.max_num_batched_tokens or 2048,
            max_num_seqs=self._stage.max_num_seqs or 128,
            speculative_tokens=self._stage.num_speculative_tokens,
            weight_bytes=self._weight_bytes,
            cache_bytes=BYTES[options.text("kv_cache_dtype")],
            memory_bytes=number("memory_bytes"),
            activation_bytes=number("activation_bytes"),
            graph_bytes=number("graph_bytes"),
            runtime_bytes=number("runtime_bytes"),
        )
        return RooflineMemory(options, self._shard, self._device, terms)

    def _check_memory(self) -> None:
        """Raise RunError where the weights alone fill a device, and say what would fit."""
        told = self._options.optional_number("memory_bytes")
        memory = self._device.memory if told is None else told
        needed = self._shard.parameters * self._weight_bytes
        if needed < memory:
            return
        message = (
            f"the weights of {self._shard.model.name} take {needed / GIB:.1f} GiB a rank, and "
            f"{self._device.name} has {memory / GIB:.1f} GiB"
        )
        raise self._options.fault(message, _what_fits(self._shard, memory, self._weight_bytes))


def _overhead(name: str, seconds: float, count: Callable[[Work], float]) -> Priced:
    return lambda work: OperatorPrice(name, seconds * count(work), Evidence.ASSUMED)


def _host_overhead(options: ExecutorOptions, rule: Rule) -> Priced:
    """The host's time by an expression over the step; the prices raise RunError below 0."""

    def price(work: Work) -> OperatorPrice:
        seconds = rule(work.totals())
        if not seconds >= 0.0:
            raise options.fault(f"`host_overhead` is {seconds:g} in a step: it must be 0 or more seconds")
        return OperatorPrice("host_overhead", seconds, Evidence.ASSUMED)

    return price


def _what_fits(shard: Shard, memory: float, weight_bytes: float) -> str:
    """The smallest number of ranks that hold the weights, and whether smaller weights would do."""
    for ranks in range(1, shard.model.num_heads + 1):
        other = Shard(shard.model, ranks, shard.data_parallel_size, shard.expert_parallel)
        if other.fault() is None and other.parameters * weight_bytes < memory:
            found = f"`tensor_parallel_size {ranks}` holds them"
            break
    else:
        found = "no number of ranks holds them"
    if weight_bytes > 1.0 and shard.parameters < memory:
        found += ", and so does `weight_dtype int8` as it is"
    return found
