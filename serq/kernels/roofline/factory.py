"""From the options of a `roofline` executor to the object that prices steps."""

from __future__ import annotations

from serq.kernels.catalogue import unknown
from serq.kernels.catalogue.devices import Device, devices
from serq.kernels.catalogue.models import ModelShape, models
from serq.kernels.registry import BuiltExecutor, ExecutorOptions, PricedStage, Setting
from serq.kernels.roofline.executor import RooflineExecutor
from serq.kernels.roofline.machine import Machine
from serq.kernels.roofline.operators import Attention, Operators
from serq.kernels.roofline.shard import Shard


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
    """The roofline of a model on a device. Raises RunError for what cannot be shared or named."""
    model, device = model_of(options), device_of(options)
    shard = Shard(model, options.count("tensor_parallel_size"))
    fault = shard.fault()
    if fault is not None:
        raise options.fault(*fault)
    if shard.tensor_parallel_size > 1 and device.link is None:
        raise options.fault(f"no source states the link of {device.name}")
    machine = Machine(
        operations=device.bf16,
        bandwidth=device.bandwidth,
        compute_efficiency=device.compute_efficiency,
        memory_efficiency=device.memory_efficiency,
        overhead=device.kernel_overhead,
        link=(device.link or 0.0) * (device.link_efficiency or 1.0),
    )
    operators = Operators(shard, machine, Attention(split=lambda work: True))
    settings = (
        Setting("model", model.name, model.source),
        Setting("device", device.name, device.source),
    )
    return BuiltExecutor(RooflineExecutor(tuple(operators.all())), settings)
