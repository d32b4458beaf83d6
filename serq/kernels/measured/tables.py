"""A folder of operator tables: `meta.yaml`, and per tensor-parallel degree the CSV files of one device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serq.errors import DataError
from serq.kernels.catalogue.models import ModelShape
from serq.kernels.measured.attention import AttentionGrid
from serq.kernels.measured.curve import Curve
from serq.kernels.measured.moe import ExpertGrid
from serq.kernels.measured.rows import read_number, read_rows
from serq.kernels.measured.skew import Bins, SkewBins, SkewFit
from serq.kernels.measured.yaml_subset import read_mapping

_DENSE = ("embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "final_layernorm")
_MLP = ("gate_up_proj", "act_fn", "down_proj")
_PER_SEQUENCE = ("lm_head", "sampler")
_SKEW_AXES = ("n", "skew_rate", "kv_big", "kp")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where and with what the tables were measured, as `meta.yaml` says; empty where it does not."""

    model: str
    gpu: str
    engine_version: str
    measured_at: str


@dataclass(frozen=True, slots=True)
class OperatorTables:
    """Times in microseconds of one layer on one device of a tensor-parallel group.

    ``dense`` by tokens, ``per_sequence`` by sequences. ``experts`` is None for a dense model, ``skew`` None
    where `meta.yaml` disables the correction.
    """

    folder: Path
    tensor_parallel: int
    provenance: Provenance
    dense: dict[str, Curve]
    per_sequence: dict[str, Curve]
    attention: AttentionGrid
    experts: ExpertGrid | None
    skew: SkewFit | None

    @classmethod
    def read(
        cls, folder: Path, model: ModelShape, tensor_parallel: int = 1, *, expert_parallel: bool = False
    ) -> OperatorTables:
        """Read what prices ``model``. Raises DataError where a file, a layer or a row is missing or wrong."""
        meta = _Meta(folder)
        meta.check(model, tensor_parallel)
        shard = folder / f"tp{tensor_parallel}"
        layers = [*_DENSE, *(("qk_norm",) if model.qk_norm else ()), *(() if model.num_experts else _MLP)]
        return cls(
            folder=folder,
            tensor_parallel=tensor_parallel,
            provenance=meta.provenance,
            dense=_read_curves(shard / "dense.csv", "tokens", layers),
            per_sequence=_read_curves(shard / "per_sequence.csv", "sequences", _PER_SEQUENCE),
            attention=AttentionGrid.read(shard / "attention.csv"),
            experts=_read_experts(folder, tensor_parallel, expert_parallel) if model.num_experts else None,
            skew=meta.read_skew(tensor_parallel),
        )


def read_provenance(folder: Path) -> Provenance:
    """Where tables were measured. Raises DataError where `meta.yaml` cannot be read."""
    return _Meta(folder).provenance


def _read_curves(path: Path, axis: str, layers: Iterable[str]) -> dict[str, Curve]:
    points: dict[str, dict[float, float]] = {}
    for line, (layer, at, time) in read_rows(path, ("layer", axis, "time_us")):
        curve = points.setdefault(layer, {})
        place = read_number(path, line, axis, at)
        if place in curve:
            raise DataError(f"{path}:{line}: {layer} at {axis} {at} was measured in a row before")
        curve[place] = read_number(path, line, "time_us", time)
    missing = [layer for layer in layers if layer not in points]
    if missing:
        raise DataError(f"{path}: no rows of {', '.join(missing)}: the tables do not belong to this model")
    return {layer: Curve(curve) for layer, curve in points.items()}


def _read_experts(folder: Path, tensor_parallel: int, expert_parallel: bool) -> ExpertGrid:
    """Whole experts were measured on one device; cut ones need a table of their own."""
    own = folder / f"tp{tensor_parallel}" / "moe.csv"
    if expert_parallel or tensor_parallel == 1:
        own = folder / "tp1" / "moe.csv"
    elif not own.exists():
        raise DataError(
            f"{own}: no such file: experts cut over {tensor_parallel} devices were not measured, "
            "whole ones (expert parallelism) may be in tp1/moe.csv"
        )
    return ExpertGrid.read(own)


class _Meta:
    """`meta.yaml` of a folder of tables."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "meta.yaml"
        if not folder.is_dir():
            raise DataError(f"operator tables {folder}: no such folder")
        self._meta = read_mapping(self._path)

    @property
    def provenance(self) -> Provenance:
        names = ("model", "gpu", "vllm_version", "profiled_at")
        return Provenance(*(str(self._meta.get(name) or "") for name in names))

    def check(self, model: ModelShape, tensor_parallel: int) -> None:
        """Raise DataError where the tables are those of another model or lack this degree."""
        degrees = self._meta.get("tp_degrees") or [1]
        if tensor_parallel not in degrees:
            have = ", ".join(map(str, degrees))
            raise DataError(f"{self._path}: no tables for tensor parallelism {tensor_parallel}, only {have}")
        engine = self._meta.get("engine_effective")
        overrides = engine.get("hf_overrides") if isinstance(engine, dict) else None
        if not isinstance(overrides, dict):
            return
        for key, whole in {
            "num_attention_heads": model.num_heads,
            "num_key_value_heads": model.num_kv_heads,
        }.items():
            part = overrides.get(key)
            if isinstance(part, int) and not any(max(whole // degree, 1) == part for degree in degrees):
                raise DataError(
                    f"{self._path}: the tables were measured with {key} {part}, "
                    f"which is no shard of the {whole} of {model.name}"
                )

    def read_skew(self, tensor_parallel: int) -> SkewFit | None:
        """The correction for unequal decodes; None where it is disabled, whatever files are there."""
        fit = self._meta.get("skew_fit")
        if not isinstance(fit, dict) or fit.get("enabled") is not True:
            return None
        axes = self._member(fit, "bucket_axes", "skew_fit")
        degree = self._member(self._member(fit, "per_tp", "skew_fit"), str(tensor_parallel), "per_tp")
        default = degree.get("alpha_default")
        if not isinstance(default, int | float):
            raise DataError(f"{self._path}: skew_fit.per_tp.{tensor_parallel}.alpha_default is not a number")
        bins = SkewBins(*(self._bins(axes, axis) for axis in _SKEW_AXES))
        table = str(degree.get("bucket_table") or f"tp{tensor_parallel}/skew_fit.csv")
        return SkewFit.read(self._folder / table, bins, float(default))

    def _bins(self, axes: dict[str, Any], axis: str) -> Bins:
        edges, labels = axes.get(f"{axis}_bins"), axes.get(f"{axis}_labels")
        if not (
            isinstance(edges, list)
            and isinstance(labels, list)
            and all(isinstance(edge, int | float) for edge in edges)
            and edges == sorted(edges)
            and len(edges) == len(labels) + 1
        ):
            raise DataError(
                f"{self._path}: {axis}_bins and {axis}_labels are not ascending edges and one label less"
            )
        return Bins(tuple(map(float, edges)), tuple(map(str, labels)))

    def _member(self, mapping: dict[str, Any], key: str, owner: str) -> dict[str, Any]:
        value = mapping.get(key)
        if not isinstance(value, dict):
            raise DataError(f"{self._path}: {owner} has no `{key}`")
        return value
