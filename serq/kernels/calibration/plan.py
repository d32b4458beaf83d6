"""Which points are worth measuring for a model, a device and a way of sharing it.

Sizes go up by a factor, ends included: tables interpolate to a few percent between points that lie four times
apart (facts: section 6.2). Dense operators depend on the tokens of a step, the head on its requests.
Attention is three tables, since a step of decodes and prefills costs more than the two alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final, Literal

import msgspec

from serq.errors import DataError, UsageError
from serq.kernels.catalogue import unknown
from serq.kernels.catalogue.devices import devices
from serq.kernels.catalogue.models import ModelShape, models
from serq.kernels.roofline.shard import Shard
from serq.kernels.step_batch import BatchRow, StepBatch
from serq.source import read_text

PLAN_FILE: Final = "plan.json"
BLOCK: Final = 128


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is calibrated: the options of a measuring executor, and the limits of the engine.

    ``device`` is `cpu` or `cuda`, which torch measures, or a name of the catalogue, which torch_npu does.
    """

    model: str
    device: str
    tensor_parallel_size: int = 1
    dtype: str = "bfloat16"
    kv_cache_dtype: str = "auto"
    attention: str | None = None
    warmup: int | None = None
    repeats: int | None = None
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 128
    max_model_len: int = 8192

    @property
    def kind(self) -> str:
        """The kind of executor that measures."""
        return "torch" if self.device in {"cpu", "cuda"} else "torch_npu"


class PlannedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table: the operator whose calls are timed, the axes, the points of a full grid.

    ``name`` is the operator's name in the table; ``when`` the quantity that a step must have.
    """

    name: str
    operator: str
    axes: tuple[str, ...]
    when: str
    points: tuple[tuple[int, ...], ...]


class CalibrationPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is measured, in this order."""

    schema: Literal[1]
    target: Target
    tables: tuple[PlannedTable, ...]

    @property
    def size(self) -> int:
        """How many measurements it takes."""
        return sum(len(table.points) for table in self.tables)


def make_plan(target: Target, spacing: float = 4.0) -> CalibrationPlan:
    """The plan for a target, sizes ``spacing`` times apart.

    Raises UsageError for an unknown model or device, and for ranks that cannot share the model.
    """
    if target.model not in models():
        raise UsageError(f"unknown model `{target.model}`; {unknown('model', target.model, models())}")
    if target.kind == "torch_npu" and target.device not in devices():
        names = unknown("device", target.device, devices())
        raise UsageError(f"unknown device `{target.device}`, neither cpu nor cuda; {names}")
    shard = Shard(models()[target.model], target.tensor_parallel_size)
    fault = shard.fault()
    if fault is not None:
        raise UsageError(f"{fault[0]}; {fault[1]}")
    if spacing <= 1.0:
        raise UsageError(f"points cannot lie {spacing:g} times apart; more than 1 is needed")
    return CalibrationPlan(1, target, tuple(_tables(models()[target.model], target, spacing)))


def sizes(low: int, high: int, spacing: float) -> tuple[int, ...]:
    """Whole numbers from ``low`` to ``high``, both included, about ``spacing`` times apart."""
    found, at = [low], float(low)
    while at * spacing < high:
        at *= spacing
        if round(at) > found[-1]:
            found.append(round(at))
    return (*found, high) if high > found[-1] else tuple(found)


def _tables(model: ModelShape, target: Target, spacing: float) -> Iterator[PlannedTable]:
    longest = max(target.max_model_len, 2 * BLOCK)
    tokens = sizes(1, target.max_num_batched_tokens, spacing)
    requests = sizes(1, target.max_num_seqs, spacing)
    contexts = tuple(size * BLOCK - 1 for size in sizes(1, longest // BLOCK, spacing**1.5))
    dense = ["embedding", "attention_projections", "norms_and_activations"]
    dense += ["gdn_projections"] if model.gdn_layers else []
    dense += ["experts", "router_and_shared_expert"] if model.num_experts else ["mlp"]
    for name in dense:
        yield _table(name, name, ("tokens",), "", tokens)
    yield _table("lm_head", "lm_head", ("scheduled",), "", requests)
    axes = ("decoders", "mean_context_decode", "prefilled", "context_prefill")
    before = (0, *contexts[1:])
    yield _table("attention_decodes", "attention", axes[:2], "decodes_alone", requests, contexts)
    yield _table("attention_prefills", "attention", axes[2:], "prefills_alone", tokens, before)
    coarse = (
        sizes(1, target.max_num_seqs, spacing**2),
        (contexts[0], contexts[-1]),
        sizes(min(16, tokens[-1]), tokens[-1], spacing**2),
        (0, before[-1]),
    )
    yield _table("attention_mixed", "attention", axes, "mixed", *coarse)
    if model.gdn_layers:
        yield _table("gdn_decodes", "gdn", ("decoders",), "decoders", requests)
        yield _table("gdn_prefills", "gdn", ("prefilled",), "prefilled", tokens)


def _table(
    name: str, operator: str, axes: tuple[str, ...], when: str, *ticks: Sequence[int]
) -> PlannedTable:
    unique = [tuple(dict.fromkeys(axis)) for axis in ticks]
    return PlannedTable(name, operator, axes, when, tuple(product(*unique)))


def step_at(axes: Sequence[str], point: Sequence[float]) -> StepBatch:
    """A step that lies at a point: equal decodes, and one prefill. Raises ValueError where there is none."""
    at = dict(zip(axes, (int(value) for value in point), strict=True))
    decoders = at.get("decoders", at.get("scheduled", 0))
    context = at.get("mean_context_decode", BLOCK - 1)
    rows = [BatchRow(str(n), 1, context, context, 0, True) for n in range(decoders)]
    prefilled = at.get("prefilled", at.get("tokens", 0))
    if prefilled:
        before = at.get("context_prefill", 0)
        rows.append(BatchRow("p", prefilled, before, before + prefilled, 0, False))
    if not rows:
        raise ValueError(f"no step lies at {at}")
    return StepBatch.of(tuple(rows))


def write_plan(plan: CalibrationPlan, folder: Path) -> None:
    """Put the plan into a folder. Raises DataError where another one is already there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PLAN_FILE
    if path.exists() and read_plan(folder) != plan:
        raise DataError(f"{path}: another plan is there; name another folder, or remove it")
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


def read_plan(folder: Path) -> CalibrationPlan:
    """The plan of a folder. Raises DataError where there is none, or it cannot be read."""
    path = folder / PLAN_FILE
    try:
        return msgspec.json.decode(read_text(path, "calibration plan"), type=CalibrationPlan)
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: {error}") from None
