"""The evidence behind costs: which prices were measured, where and when, and which are stated or assumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from serq.ir import nodes
from serq.kernels.executor import Evidence
from serq.results.tables import percentage
from serq.runtime.pricing import PriceRow

STATED: Final = "an expression of the program"
_SHOWN: Final = 3


def costs(program: nodes.Program, prices: Sequence[PriceRow]) -> list[tuple[str, str]]:
    """For every stage that computes steps its name, and what their costs rest on."""
    priced = {row.stage: row for row in prices}
    found = []
    for stage in program.stages:
        if isinstance(stage.kind, nodes.Vllm | nodes.Step):
            if stage.name in priced:
                basis = _basis(priced[stage.name])
            elif isinstance(stage.kind.cost, nodes.Via):  # a run that was killed: nobody wrote its prices
                basis = f"executor `{stage.kind.cost.executor}`, on what evidence is not known"
            else:
                basis = STATED
            found.append((stage.name, basis))
    return found


def costs_text(program: nodes.Program, prices: Sequence[PriceRow]) -> str:
    """The same in a line; stages that share their costs are named together."""
    stages: dict[str, list[str]] = {}
    for name, basis in costs(program, prices):
        stages.setdefault(basis, []).append(f"`{name}`")
    return "; ".join(f"{', '.join(names)}: {basis}" for basis, names in stages.items())


def costs_data(program: nodes.Program, prices: Sequence[PriceRow]) -> list[dict[str, Any]]:
    """The same as plain data, with the shares of the priced seconds by evidence."""
    priced = {row.stage: row for row in prices}
    out = []
    for name, basis in costs(program, prices):
        row = priced.get(name)
        out.append(
            {
                "stage": name,
                "basis": basis,
                "measurements": [] if row is None else [origin._asdict() for origin in row.origins],
                "evidence": {} if row is None else dict(_shares(row)),
            }
        )
    return out


def _basis(row: PriceRow) -> str:
    settings = {setting.name: setting.value for setting in row.settings}
    match row.kind:
        case "roofline":
            model, device = settings.get("model", "a model"), settings.get("device", "a device")
            what = f"roofline of {model}, on {device}"
            what += f", calibrated by {_origins(row)}" if row.origins else ", not calibrated"
        case "torch" | "torch_npu":
            what = f"operators measured by `{row.kind}`: {_origins(row)}"
        case _:
            what = f"tables {_origins(row)}"
    shares = ", ".join(f"{percentage(share, 1.0)} {name}" for name, share in _shares(row))
    return f"{what}; {shares}" if shares else what


def _origins(row: PriceRow) -> str:
    """The files, those of one device and date together."""
    found: dict[tuple[str, str], list[str]] = {}
    for origin in row.origins:
        found.setdefault((origin.device, origin.date), []).append(origin.file)
    return ", ".join(_origin(files, device, date) for (device, date), files in found.items())


def _origin(files: Sequence[str], device: str, date: str) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    where = device or "device not stated"
    return f"{', '.join(files[:_SHOWN])}{more} ({where}; {date or 'date not stated'})"


def _shares(row: PriceRow) -> Iterator[tuple[str, float]]:
    """The share of the priced seconds that rests on each evidence, the best first."""
    total = sum(sum(seconds.values()) for seconds in row.ledger.operators.values())
    for evidence in Evidence:
        seconds = sum(found.get(evidence, 0.0) for found in row.ledger.operators.values())
        if seconds > 0.0:
            yield evidence.value, seconds / total
