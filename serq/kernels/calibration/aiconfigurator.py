"""Operator tables in the format of AIConfigurator as tables of the project.

`context_attention_perf`, `generation_attention_perf` and `gdn_perf`, as CSV (`.csv`, `.txt`) or parquet;
`latency` is milliseconds. The files hold many models: the rows of one shard are taken, with no window.
Prefills are measured alone and decodes alone, there are no mixed steps in them (facts: section 6.2).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from serq.errors import DataError
from serq.kernels.calibration.importing import ImportedTable, gridded
from serq.kernels.roofline.shard import Shard
from serq.kernels.tables.sidecar import Provenance

FILES = ("context_attention_perf", "generation_attention_perf", "gdn_perf")
_MILLISECOND = 1e-3
_SUFFIXES = (".csv", ".txt", ".parquet")
_TYPES = {"bfloat16", "bf16", "float16", "fp16"}

Row = Mapping[str, Any]


def read_aiconfigurator(
    source: Path, shard: Shard, device: str, software: dict[str, str]
) -> tuple[list[ImportedTable], Provenance]:
    """The tables of one shard. Raises DataError where a file cannot be read or holds nothing of the shard."""
    paths = [source] if source.is_file() else [
        source / f"{name}{suffix}"
        for name in FILES
        for suffix in _SUFFIXES
        if (source / f"{name}{suffix}").exists()
    ]  # fmt: skip
    tables: list[ImportedTable] = []
    for path in paths:
        if path.stem not in FILES:
            raise DataError(f"{path}: known are {', '.join(FILES)}")
        made = list({FILES[0]: _prefills, FILES[1]: _decodes, FILES[2]: _gdn}[path.stem](path, shard))
        tables += made
    if not tables:
        whose = f"{shard.model.name} on {shard.tensor_parallel_size} rank(s)"
        raise DataError(f"{source}: no rows of {whose} in {_list(paths)}")
    provenance = Provenance(device, "AIConfigurator collector", software, source=str(source))
    return tables, provenance


def _list(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths) or f"none of {', '.join(FILES)}"


def _rows(path: Path, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Rows as dictionaries. Raises DataError for a missing column, or no number in one of ``names``."""
    rows: list[dict[str, Any]]
    try:
        if path.suffix == ".parquet":
            import pandas

            rows = [{str(name): value for name, value in row.items()}
                    for row in pandas.read_parquet(path).to_dict("records")]  # fmt: skip
        else:
            with open(path, encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
    except (OSError, ImportError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    for line, row in enumerate(rows, 2):
        numbers: dict[str, Any] = dict(row)
        for name in names:
            try:
                numbers[name] = float(row[name])
            except KeyError:
                raise DataError(f"{path}: no column `{name}`; there are {', '.join(row)}") from None
            except (TypeError, ValueError):
                raise DataError(f"{path}:{line}: column `{name}`: `{row[name]}` is not a number") from None
        yield numbers


def _is_shard(row: Row, shard: Shard) -> bool:
    """Whether a row of attention is of the shard's heads, in 16 bits, without a window."""
    kv_heads = row["num_key_value_heads"] or row["num_heads"]
    wide = all(str(row.get(name, "bfloat16")).lower() in _TYPES for name in ("attn_dtype", "kv_cache_dtype"))
    heads = (row["num_heads"], kv_heads, row["head_dim"])
    own = (shard.num_heads, shard.num_kv_heads, shard.model.head_dim)
    return heads == own and wide and not float(row.get("window_size") or 0)


_ATTENTION = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step", "latency")


def _prefills(path: Path, shard: Shard) -> Iterator[ImportedTable]:
    """One prompt of ``isl`` tokens behind ``step`` that were computed before."""
    points: dict[tuple[float, ...], float] = {
        (row["isl"], row["step"]): row["latency"] * _MILLISECOND
        for row in _rows(path, _ATTENTION)
        if _is_shard(row, shard) and row["batch_size"] == 1
    }
    layers = shard.model.full_attention_layers
    axes = ("prefilled", "context_prefill")
    yield from gridded("attention_prefills", axes, points, calls=layers, when="prefills_alone")


def _decodes(path: Path, shard: Shard) -> Iterator[ImportedTable]:
    """``batch_size`` tokens over ``isl + step`` keys each, their own among them."""
    points: dict[tuple[float, ...], float] = {
        (row["batch_size"], row["isl"] + row["step"] - 1): row["latency"] * _MILLISECOND
        for row in _rows(path, _ATTENTION)
        if _is_shard(row, shard)
    }
    layers = shard.model.full_attention_layers
    axes = ("decoders", "mean_context_decode")
    yield from gridded("attention_decodes", axes, points, calls=layers, when="decodes_alone")


_GDN = ("batch_size", "num_tokens", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "latency")


def _gdn(path: Path, shard: Shard) -> Iterator[ImportedTable]:
    """The kernels of a layer add up; one prompt, or decodes of one token."""
    model = shard.model
    own = (shard.gdn_key_heads, model.gdn_key_dim, shard.gdn_value_heads, model.gdn_value_dim)
    decodes: dict[tuple[float, ...], float] = {}
    prefills: dict[tuple[float, ...], float] = {}
    for row in _rows(path, _GDN):
        if (row["num_k_heads"], row["head_k_dim"], row["num_v_heads"], row["head_v_dim"]) != own:
            continue
        phase = str(row.get("phase", ""))
        if phase not in {"context", "prefill", "generation", "decode"}:
            raise DataError(f"{path}: column `phase`: `{phase}` is neither context nor generation")
        if phase in {"generation", "decode"}:
            points, at = decodes, row["batch_size"]
        elif row["batch_size"] == 1:
            points, at = prefills, row["num_tokens"]
        else:
            continue
        points[at,] = points.get((at,), 0.0) + row["latency"] * _MILLISECOND
    yield from gridded("gdn_decodes", ("decoders",), decodes, calls=model.gdn_layers, when="decoders")
    yield from gridded("gdn_prefills", ("prefilled",), prefills, calls=model.gdn_layers, when="prefilled")
