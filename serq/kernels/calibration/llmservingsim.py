"""Tables of the LLMServingSim profiler (`meta.yaml`, `tpN/*.csv`) as tables of the project.

What the `measured` executor knows beside them stays behind: the correction for decodes of unequal contexts,
graph padding, collectives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from serq.errors import DataError, UsageError
from serq.kernels.calibration.importing import ImportedTable, gridded
from serq.kernels.catalogue.models import ModelShape, model_named
from serq.kernels.measured.curve import Curve
from serq.kernels.measured.rows import read_number, read_rows
from serq.kernels.measured.tables import OperatorTables, read_provenance
from serq.kernels.tables.sidecar import Provenance

_MICROSECOND = 1e-6
_ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us")
_AXES = ("prefilled", "context_prefill", "decoders", "mean_context_decode")


def read_llmservingsim(
    folder: Path, model_name: str | None, tensor_parallel: int
) -> tuple[list[ImportedTable], Provenance, str]:
    """The tables of one tensor-parallel degree, where they come from, and their model.

    Raises DataError for tables that cannot be read, UsageError where no model is known.
    """
    theirs = read_provenance(folder)
    name = model_name or theirs.model
    model = model_named(name) if name else None
    if model is None:
        raise UsageError(f"the tables are of {name or 'no model that they name'}; say it: --model")
    read = OperatorTables.read(folder, model, tensor_parallel)
    tables = [*_dense(read, model), *_attention(folder / f"tp{tensor_parallel}" / "attention.csv", model)]
    provenance = Provenance(
        device=theirs.gpu or "not stated",
        measured_by="LLMServingSim profiler",
        software={"vllm": theirs.engine_version or "not stated"},
        date=theirs.measured_at,
        source=str(folder),
    )
    return tables, provenance, model.name


def _dense(read: OperatorTables, model: ModelShape) -> Iterator[ImportedTable]:
    """By tokens or by requests; layers count as in the `measured` executor."""
    calls = {name: model.num_layers for name in read.dense}
    calls |= {"embedding": 1, "final_layernorm": 1, "layernorm": 2 * model.num_layers}
    for name, curve in read.dense.items():
        share = 2 / read.tensor_parallel if name == "qk_norm" else 1.0
        yield ImportedTable(name, ("tokens",), _seconds(curve, share), calls[name])
    for name, curve in read.per_sequence.items():
        yield ImportedTable(name, ("scheduled",), _seconds(curve), 1)
    if read.experts is not None:
        points: dict[tuple[float, ...], float] = {}
        for tokens in read.experts.tokens:
            activated = min(model.experts_per_token * tokens, model.num_experts)
            points[(float(tokens),)] = read.experts.at(tokens, activated)[0] * _MICROSECOND
        method = "at as many activated experts as the tokens choose, interpolated where that was not measured"
        yield ImportedTable("experts", ("tokens",), points, model.num_layers, method=method)


def _seconds(curve: Curve, share: float = 1.0) -> dict[tuple[float, ...], float]:
    return {(at,): curve.at(at)[0] * share * _MICROSECOND for at in curve.axis}


def _attention(path: Path, model: ModelShape) -> Iterator[ImportedTable]:
    """Three tables by what a step is made of; kernels differ between them."""
    decodes: dict[tuple[float, ...], float] = {}
    prefills: dict[tuple[float, ...], float] = {}
    mixed: dict[tuple[float, ...], float] = {}
    for line, texts in read_rows(path, _ATTENTION):
        values = [read_number(path, line, name, text) for name, text in zip(_ATTENTION, texts, strict=True)]
        *at, time = values
        chunk, history, decoders, context = at
        if chunk and decoders:
            mixed[tuple(at)] = time * _MICROSECOND
        elif decoders:
            decodes[decoders, context] = time * _MICROSECOND
        elif chunk:
            prefills[chunk, history] = time * _MICROSECOND
    if not decodes:
        raise DataError(f"{path}: no rows of decodes alone")
    calls = model.num_layers
    yield from gridded("attention_decodes", _AXES[2:], decodes, calls=calls, when="decodes_alone")
    yield from gridded("attention_prefills", _AXES[:2], prefills, calls=calls, when="prefills_alone")
    yield from gridded("attention_mixed", _AXES, mixed, calls=calls, when="mixed")
