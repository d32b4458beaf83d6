"""From the options of a `table` executor to the object that prices steps."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from serq.errors import DataError
from serq.kernels.registry import BuiltExecutor, ExecutorOptions, PricedStage, Setting
from serq.kernels.tables.executor import TableExecutor
from serq.kernels.tables.grid import Extrapolation
from serq.kernels.tables.operator_table import OperatorTable


def build(options: ExecutorOptions, stage: PricedStage) -> BuiltExecutor:
    """The tables of a folder. Raises DataError for one that cannot be read."""
    tables = read_tables(stage.folder / options.text("tables"))
    policy = cast(Extrapolation, options.text("extrapolation"))
    source = "the program" if options.written("extrapolation") else "default"
    settings = [Setting("extrapolation", policy, source)]
    settings += [
        Setting(table.sidecar.operator, table.path.name, table.sidecar.provenance.text()) for table in tables
    ]
    return BuiltExecutor(TableExecutor(tables, policy), tuple(settings))


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
