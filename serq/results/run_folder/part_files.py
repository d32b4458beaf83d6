"""Part files of tables, as Parquet or CSV. A part is there in whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from serq.errors import UsageError
from serq.results.run_folder.columns import TABLES, Column, Table
from serq.results.whole_files import write_file

if TYPE_CHECKING:
    from pandas import DataFrame

PartFormat = Literal["parquet", "csv"]
PART_FORMATS: Final[tuple[PartFormat, ...]] = ("parquet", "csv")
Columns = Mapping[str, Sequence[Any]]

TYPES: Final = {"text": "str", "integer": "int64", "number": "float64"}
"""What the columns are in a frame."""


def require(part_format: PartFormat) -> None:
    """Raise UsageError where ``part_format`` needs a package that is not there."""
    if part_format == "parquet":
        _parquet()


def _parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "Parquet files need pyarrow: pip install 'serq[parquet]'. CSV needs nothing: --out-format csv"
        ) from None
    return pyarrow, parquet


class PartFiles:
    """The parts of one table: ``FOLDER/TABLE/part-00000.parquet``, …"""

    def __init__(self, folder: Path, table: Table, part_format: PartFormat) -> None:
        self.folder = folder / table
        self.columns = TABLES[table]
        self.part_format: PartFormat = part_format
        self.rows = 0
        """Rows written."""
        self._parts = 0

    def write(self, columns: Columns) -> None:
        """Append one part, if it has rows. Raises DataError where it cannot be written."""
        rows = len(columns[self.columns[0].name])
        if not rows:
            return
        self.folder.mkdir(exist_ok=True)
        write = _write_parquet if self.part_format == "parquet" else _write_csv
        path = self.folder / f"part-{self._parts:05d}.{self.part_format}"
        write_file(path, lambda unfinished: write(unfinished, self.columns, columns))
        self._parts += 1
        self.rows += rows

    def clear(self) -> None:
        """Remove the parts that were written."""
        for path in self.paths():
            path.unlink()
        self.rows = self._parts = 0

    def read(self, names: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """The parts as frames, one in memory at a time, with the columns ``names`` (all, if None)."""
        for path in self.paths():
            yield self.read_part(path, names)

    def paths(self) -> list[Path]:
        """The parts that are there, in order."""
        return sorted(self.folder.glob(f"part-*.{self.part_format}"))

    def read_part(self, path: Path, names: Sequence[str] | None = None) -> DataFrame:
        """One part, with the columns ``names`` (all, if None)."""
        wanted = [column for column in self.columns if names is None or column.name in names]
        read = _read_parquet if self.part_format == "parquet" else _read_csv
        return read(path, wanted)


def _write_parquet(path: Path, columns: Sequence[Column], data: Columns) -> None:
    pyarrow, parquet = _parquet()
    arrays = {}
    for column in columns:
        if column.kind == "text":
            arrays[column.name] = pyarrow.array(data[column.name], pyarrow.string()).dictionary_encode()
        else:
            arrays[column.name] = pyarrow.array(data[column.name], TYPES[column.kind])
    parquet.write_table(pyarrow.table(arrays), path, compression="zstd")


def _read_parquet(path: Path, columns: Sequence[Column]) -> DataFrame:
    _, parquet = _parquet()
    frame: DataFrame = parquet.read_table(path, columns=[column.name for column in columns]).to_pandas()
    return frame.astype({column.name: "str" for column in columns if column.kind == "text"})


def _write_csv(path: Path, columns: Sequence[Column], data: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(column.name for column in columns)
        writer.writerows(zip(*(data[column.name] for column in columns), strict=True))


def _read_csv(path: Path, columns: Sequence[Column]) -> DataFrame:
    """Read with Python's own numbers: every float reads back as it was."""
    import pandas

    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    fields = dict(zip(names, zip(*rows, strict=True), strict=True))
    return pandas.DataFrame(
        {
            column.name: pandas.Series(
                map(_CSV_READERS[column.kind], fields[column.name]), dtype=TYPES[column.kind]
            )
            for column in columns
        }
    )


_CSV_READERS: Final[dict[str, Callable[[str], Any]]] = {"text": str, "integer": int, "number": float}
