"""From the options of a `table` executor to the object that prices steps."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from serq.errors import DataError
from serq.kernels.fia.attention import HEAD_DIMS, MeasuredAttention, split_rule
from serq.kernels.fia.points import ORIGIN, SOURCE, Heads
from serq.kernels.registry import BuiltExecutor, ExecutorOptions, PricedStage, Setting
from serq.kernels.roofline.factory import model_of
from serq.kernels.roofline.shard import Shard
from serq.kernels.tables.executor import TableExecutor
from serq.kernels.tables.grid import Extrapolation
from serq.kernels.tables.operator_table import OperatorTable


def build(options: ExecutorOptions, stage: PricedStage) -> BuiltExecutor:
    """Tables of a folder, attention from measured points, or both.

    Raises DataError for a table that cannot be read, RunError for options that do not go together.
    """
    check(options)
    tables = read_tables(stage.folder / options.text("tables")) if options.written("tables") else []
    attention = _attention(options)
    policy = cast(Extrapolation, options.text("extrapolation"))
    settings = [Setting("extrapolation", policy, options.source("extrapolation"))]
    settings += [
        Setting(table.sidecar.operator, table.path.name, table.sidecar.provenance.text()) for table in tables
    ]
    origins = [table.sidecar.provenance.origin(table.path.name) for table in tables]
    if attention is not None:
        origins.append(ORIGIN)
        form = options.rule("fia_split")
        text = form if isinstance(form, str) else "an expression"
        settings.append(Setting("fia_split", text, options.source("fia_split")))
        settings.append(Setting("fia", options.text("fia"), SOURCE))
        if any(table.sidecar.operator == "attention" for table in tables):
            raise options.fault("`attention` stands in a table and in `fia`", "leave one of them out")
    executor = TableExecutor(tables, policy, attention)
    return BuiltExecutor(executor, tuple(settings), origins=tuple(origins))


def check(options: ExecutorOptions) -> None:
    """Raise RunError for an executor that prices nothing, and for options of `fia` that cannot be met."""
    _shard(options)
    if not options.written("tables") and not options.written("fia"):
        raise options.fault("it prices nothing", 'add `tables "FOLDER";`, or `fia ascend950;`')


def _attention(options: ExecutorOptions) -> MeasuredAttention | None:
    """Attention from measured points, where the program asks for it."""
    shard = _shard(options)
    if shard is None:
        return None
    heads = Heads(shard.num_heads, shard.num_kv_heads, shard.model.head_dim)
    split = split_rule(options.rule("fia_split"))
    layers = shard.model.full_attention_layers
    return MeasuredAttention(heads, layers, shard.tensor_parallel_size, split)


def _shard(options: ExecutorOptions) -> Shard | None:
    """The model whose attention is priced from measured points, None where none is. Raises RunError."""
    needs = ("fia_split", "model", "tensor_parallel_size")
    if not options.written("fia"):
        lonely = next((name for name in needs if options.written(name)), None)
        if lonely is not None:
            raise options.fault(f"`{lonely}` belongs to `fia`, which is not there", "add `fia ascend950;`")
        return None
    if not options.written("model"):
        raise options.fault("`fia` needs the heads of a model", 'add `model "Qwen3.5-27B";`')
    shard = Shard(model_of(options), options.count("tensor_parallel_size"))
    fault = shard.fault()
    if fault is not None:
        raise options.fault(*fault)
    if shard.model.head_dim not in HEAD_DIMS:
        raise options.fault(f"`fia` has no head dimension {shard.model.head_dim}, only 128 and 256")
    return shard


def read_tables(folder: Path) -> list[OperatorTable]:
    """Every table of a folder, by file name. Raises DataError where there is none, or one is broken."""
    if not folder.is_dir():
        raise DataError(f"tables {folder}: no such folder")
    tables = [OperatorTable.read(path) for path in sorted(folder.glob("*.csv"))]
    if not tables:
        raise DataError(f"tables {folder}: no CSV files in it")
    operators = [table.sidecar.operator for table in tables]
    for table in tables:
        if operators.count(table.sidecar.operator) > 1:
            raise DataError(f"table {table.path}: `{table.sidecar.operator}` stands in another table, too")
    return tables
