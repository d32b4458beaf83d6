"""The tables that a measuring executor writes: one row a measurement, kept at once, never measured twice.

A folder has a CSV file and its metadata for every operator, in the form that the `table` executor reads. A
row is on disk before its price is used; a row that a kill cut short is dropped when the folder is opened
again. Several processes may share a folder: one measures at a time, and what one wrote the others read.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from serq.errors import DataError, RunError
from serq.kernels.measuring.bench import Timing
from serq.kernels.tables.sidecar import Provenance, Sidecar, read_sidecar

COLUMNS = ("seconds", "smallest", "largest")
LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class TableKind:
    """What the metadata of one operator's table says beside its provenance."""

    operator: str
    axes: tuple[str, ...]
    calls: int = 1
    when: str = ""
    context_step: int = 1
    assumed: bool = False


@dataclass(slots=True)
class _Table:
    kind: TableKind
    path: Path
    prices: dict[tuple[str, ...], float] = field(default_factory=dict)
    read_to: int = 0


class MeasuredTables:
    """The tables of one folder, all measured on the same device with the same software."""

    def __init__(self, folder: Path, provenance: Provenance, dimensions: dict[str, str | int]) -> None:
        """Makes the folder where it is missing. Raises DataError where it cannot be made."""
        self.folder = folder
        self._provenance = provenance
        self._dimensions = dimensions
        self._tables: dict[str, _Table] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"tables {folder}: cannot be made ({error.strerror})") from None

    def price(self, kind: TableKind, key: tuple[str, ...], measure: Callable[[], Timing]) -> float:
        """Seconds of an operator at ``key``: those of the first measurement, made now if there is none.

        Raises RunError where the folder holds measurements of another device, software or model.
        """
        table = self._tables.get(kind.operator)
        if table is not None and key in table.prices:
            return table.prices[key]
        with self._alone():
            table = self._opened(kind)
            if key not in table.prices:
                self._append(table, key, measure())
            return table.prices[key]

    def known(self, kind: TableKind) -> set[tuple[str, ...]]:
        """The keys that an operator was measured at."""
        with self._alone():
            return set(self._opened(kind).prices)

    # --- files ------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While nobody else measures into this folder."""
        with open(self.folder / LOCK, "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _opened(self, kind: TableKind) -> _Table:
        table = self._tables.get(kind.operator)
        if table is None:
            table = _Table(kind, self.folder / f"{kind.operator}.csv")
            self._check_metadata(kind, table.path)
            self._tables[kind.operator] = table
        self._read_news(table)
        return table

    def _check_metadata(self, kind: TableKind, path: Path) -> None:
        """Write the metadata of a new table; compare that of an old one, its date left out."""
        own = Sidecar(
            schema=1,
            operator=kind.operator,
            axes=kind.axes,
            value="seconds",
            unit="s",
            provenance=self._provenance,
            calls=kind.calls,
            when=kind.when,
            notes=COLUMNS[1:],
            context_step=kind.context_step,
            evidence="assumed" if kind.assumed else "measured",
            dimensions=self._dimensions,
        )
        beside = path.with_suffix(".json")
        if beside.exists():
            theirs = read_sidecar(beside)
            undated = msgspec.structs.replace(theirs.provenance, date=self._provenance.date)
            if msgspec.structs.replace(theirs, provenance=undated) != own:
                raise RunError(
                    f"table {path} holds other measurements: {_difference(own, theirs)}; "
                    "name another folder, or remove it",
                    code="executor-options",
                )
            return
        text = msgspec.json.format(msgspec.json.encode(own), indent=1)
        _replace(path, (",".join((*kind.axes, *COLUMNS)) + "\n").encode())
        _replace(beside, text + b"\n")

    @staticmethod
    def _read_news(table: _Table) -> None:
        """Rows that were added since, by whomever. A last row without its end was cut short by a kill."""
        data = table.path.read_bytes()[table.read_to :]
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with open(table.path, "r+b") as file:
                file.truncate(table.read_to + len(whole))
        lines = whole.decode().splitlines()
        count = len(table.kind.axes)
        for line in lines if table.read_to else lines[1:]:
            parts = line.split(",")
            try:
                table.prices.setdefault(tuple(parts[:count]), float(parts[count]))
            except (ValueError, IndexError):
                raise DataError(f"table {table.path}: no row of measurements: `{line}`") from None
        table.read_to += len(whole)

    @staticmethod
    def _append(table: _Table, key: tuple[str, ...], timing: Timing) -> None:
        row = ",".join((*key, *(repr(float(value)) for value in timing))) + "\n"
        with open(table.path, "ab") as file:
            file.write(row.encode())
            file.flush()
            os.fsync(file.fileno())
        table.read_to += len(row.encode())
        table.prices[key] = float(timing.seconds)


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(f"{path.suffix}.part")
    part.write_bytes(data)
    part.replace(path)


def _difference(own: Sidecar, theirs: Sidecar) -> str:
    """The first thing in which two tables differ, in words."""

    def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, part in value.items():
                yield from flat(part, f"{name}.{key}" if name else key)
        else:
            yield name, value

    mine, other = (dict(flat(msgspec.to_builtins(sidecar))) for sidecar in (own, theirs))
    for name in [*mine, *other]:
        if name != "provenance.date" and mine.get(name) != other.get(name):
            return f"{name} {other.get(name, 'nothing')} there, {mine.get(name, 'nothing')} here"
    return "they differ"
