"""What devices can do at best, and the efficiencies that others assume for them (devices.csv)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from serq.kernels.catalogue import table

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Device:
    """One device as a rank sees it: a die of a 910C, a whole chip elsewhere.

    Operations and bytes a second at the peak; ``link`` bytes a second to the other devices, one direction.
    None: no source states it. Efficiencies are shares of the peak that other simulators assume; they are no
    measurements. ``kernel_overhead`` is seconds that a matrix operator takes beside its work.
    """

    name: str
    family: str
    bf16: float
    int8: float
    fp8: float | None
    memory: int
    bandwidth: float
    link: float | None
    compute_efficiency: float
    memory_efficiency: float
    link_efficiency: float | None
    kernel_overhead: float
    source: str
    bandwidth_source: str
    link_source: str
    efficiency_source: str


@cache
def devices() -> dict[str, Device]:
    """Every device of the catalogue, by name and by alias."""
    found = {}
    for row in table("devices"):
        device = _device(row)
        for name in (device.name, *filter(None, row["aliases"].split(";"))):
            found[name] = device
    return found


def _device(row: dict[str, str]) -> Device:
    def optional(column: str, unit: float) -> float | None:
        return float(row[column]) * unit if row[column] else None

    return Device(
        name=row["device"],
        family=row["family"],
        bf16=float(row["bf16_tflops"]) * 1e12,
        int8=float(row["int8_tops"]) * 1e12,
        fp8=optional("fp8_tflops", 1e12),
        memory=round(float(row["memory_gib"]) * GIB),
        bandwidth=float(row["memory_tbps"]) * 1e12,
        link=optional("link_gbps", 1e9),
        compute_efficiency=float(row["compute_efficiency"]),
        memory_efficiency=float(row["memory_efficiency"]),
        link_efficiency=optional("link_efficiency", 1.0),
        kernel_overhead=float(row["kernel_overhead_us"]) * 1e-6,
        source=row["source"],
        bandwidth_source=row["bandwidth_source"],
        link_source=row["link_source"],
        efficiency_source=row["efficiency_source"],
    )
