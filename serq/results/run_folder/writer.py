"""A run folder while its run goes on: rows leave memory as part files, each whole when it appears."""

from __future__ import annotations

import shutil
import signal
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from serq.errors import UsageError
from serq.ir import nodes
from serq.results.dump import make_folder
from serq.results.run_folder import description
from serq.results.run_folder.columns import TABLES, Table
from serq.results.run_folder.part_files import PartFiles, PartFormat, require
from serq.results.run_folder.stored_run import StoredReport
from serq.results.run_folder.stored_waits import StoredWaits
from serq.runtime.records import Records, Series
from serq.runtime.request_records import (
    FINISH_REASONS,
    EngineRow,
    PreemptionTable,
    QueueTable,
    RequestTable,
    StepTable,
)
from serq.runtime.serving.engine_log import EngineLog
from serq.runtime.serving.starvation import starvation_warning
from serq.runtime.sink import LiveRecords
from serq.source import Diagnostic, SourceMap

ROWS_A_PART: Final = 65_536
"""Rows of a table that are worth a part file; so many, and a few more, are in memory at most."""


class RunWriter:
    """Takes the records of one run, and writes them to a folder. See :class:`RecordSink`."""

    def __init__(
        self, folder: Path, program: nodes.Program, part_format: PartFormat, rows_a_part: int = ROWS_A_PART
    ) -> None:
        self.folder = folder
        self._rows_a_part = rows_a_part
        self._program = program
        self._format: PartFormat = part_format
        self._observations, self._requests, self._steps, self._queue, self._preemptions = (
            PartFiles(folder, table, part_format) for table in TABLES
        )

    @classmethod
    def open(
        cls,
        folder: str | Path,
        program: nodes.Program,
        part_format: PartFormat = "parquet",
        *,
        overwrite: bool = False,
        rows_a_part: int = ROWS_A_PART,
    ) -> RunWriter:
        """Make ``folder`` ready for a run. ``overwrite`` removes an earlier run from it.

        Raises UsageError where it holds something else, or where ``part_format`` needs a package that is
        missing; DataError where it cannot be written.
        """
        require(part_format)
        target = make_folder(folder)
        if any(target.iterdir()):
            _clear(target, overwrite)
        writer = cls(target, program, part_format, rows_a_part)
        description.write(target, description.of_start(program, part_format))
        return writer

    # --- while the run goes on --------------------------------------------------------------------------

    def offer(self, live: LiveRecords) -> None:
        """Write parts of the tables that have grown long enough."""
        enough = self._rows_a_part
        if sum(len(series.values) for series in live.series.values()) >= enough:
            with _uninterrupted():
                self._write_observations(live.series)
        if len(live.requests) >= enough and (over := live.requests.over()) * 2 >= enough:
            with _uninterrupted():
                self._write_requests(live.requests, over, live.engines)
        if sum(len(engine.steps) for engine in live.engines) >= enough:
            with _uninterrupted():
                live.note_progress()
                steps = [
                    (engine, engine.steps, engine.take_steps(len(engine.steps))) for engine in live.engines
                ]
                self._write_steps(steps)

        if sum(len(engine.queue.stays) for engine in live.engines) >= enough:
            with _uninterrupted():
                self._write_queue([(engine, engine.queue.stays) for engine in live.engines])
        if sum(len(engine.queue.preemptions) for engine in live.engines) >= enough:
            with _uninterrupted():
                self._write_preemptions([(engine, engine.queue.preemptions) for engine in live.engines])

    def begin_again(self) -> None:
        """Remove the parts that were written: the run begins anew, and writes them once more."""
        for parts in (self._observations, self._requests, self._steps, self._queue, self._preemptions):
            parts.clear()

    def _write_observations(self, all_series: Mapping[str, Series]) -> None:
        data: dict[str, list[Any]] = {column.name: [] for column in TABLES["observations"]}
        for name, series in all_series.items():
            data["observation"] += [name] * len(series.values)
            for column, values in _columns(series).items():
                data[column] += values
                del values[:]
        self._observations.write(data)

    def _write_requests(self, table: RequestTable, rows: int, engines: Sequence[EngineLog | Any]) -> None:
        first = table.handed_over
        taken = table.take(rows)
        places = taken.pop("engine")
        self._requests.write(
            {
                **taken,
                "request": range(first, first + rows),
                "stage": [engines[place].name for place in places],
                "member": [engines[place].member for place in places],
                "class": taken["label"],
                "finish_reason": [FINISH_REASONS[place] for place in taken["finish_reason"]],
            }
        )

    def _write_steps(self, taken: Sequence[tuple[EngineLog | Any, StepTable, Mapping[str, Any]]]) -> None:
        data: dict[str, list[Any]] = {column.name: [] for column in TABLES["steps"]}
        for engine, table, columns in taken:
            rows = len(columns["end"])
            data["stage"] += [engine.name] * rows
            data["member"] += [engine.member] * rows
            data["step"] += range(table.count - len(table) - rows, table.count - len(table))
            for name, values in columns.items():
                data[name] += values
        self._steps.write(data)

    def _write_queue(self, tables: Sequence[tuple[EngineLog | EngineRow, QueueTable]]) -> None:
        self._queue.write(_joined("queue", [(engine, table.take(len(table))) for engine, table in tables]))

    def _write_preemptions(self, tables: Sequence[tuple[EngineLog | EngineRow, PreemptionTable]]) -> None:
        taken = [(engine, table.take(len(table))) for engine, table in tables]
        self._preemptions.write(_joined("preemptions", taken))

    # --- at its end -------------------------------------------------------------------------------------

    def finish(
        self,
        records: Records,
        warnings: Sequence[Diagnostic] = (),
        source_map: SourceMap | None = None,
        price_per_hour: float | None = None,
    ) -> StoredReport:
        """Write what is left of ``records``, and what the run came to.

        ``warnings`` are those of compiling, ``source_map`` says where the program's text stands,
        ``price_per_hour`` what a device-hour costs.
        Raises DataError where it cannot be written.
        """
        with _uninterrupted():
            scattered = records.requests.handed_over > 0
            self._write_observations(records.series)
            self._write_requests(records.requests, len(records.requests), records.engines)
            self._write_steps([(row, row.table, row.table.take(len(row.table))) for row in records.engines])
            self._write_queue([(row, row.queue) for row in records.engines])
            self._write_preemptions([(row, row.victims) for row in records.engines])
            if scattered:
                records.warnings += self._starvation(records)
            report = StoredReport(
                self.folder, self._format, records, warnings, program=self._program, source_map=source_map
            )
            report.price_per_hour = price_per_hour
            told = description.of_report(self._program, self._format, report, source_map)
            description.write(self.folder, told)
        return report

    def _starvation(self, records: Records) -> list[Diagnostic]:
        """The warnings that a run makes itself while it has all of its requests in memory."""
        return [
            warning
            for row in records.engines
            for warning in starvation_warning(
                StoredWaits(self._requests, row.name, row.member),
                f"{row.name}[{row.member}]",
                row.name,
                records.end,
            )
        ]


def _joined(
    table: Table, taken: Sequence[tuple[EngineLog | EngineRow, Mapping[str, Sequence[Any]]]]
) -> dict[str, list[Any]]:
    """The rows of all engines by column, each with its stage and member."""
    data: dict[str, list[Any]] = {column.name: [] for column in TABLES[table]}
    for engine, columns in taken:
        rows = len(next(iter(columns.values())))
        data["stage"] += [engine.name] * rows
        data["member"] += [engine.member] * rows
        for name, values in columns.items():
            data[name] += values
    return data


def _columns(series: Series) -> dict[str, array[Any]]:
    return {
        "time": series.times,
        "session": series.sessions,
        "turn": series.turns,
        "value": series.values,
    }


def _clear(folder: Path, overwrite: bool) -> None:
    """Remove an earlier run from ``folder``. Raises UsageError for other contents, or if not to overwrite."""
    if not (folder / description.FILE).is_file():
        raise UsageError(f"{folder} holds other files: give a new folder, or that of an earlier run")
    if not overwrite:
        raise UsageError(f"{folder} holds a run: give a new folder, or --overwrite")
    (folder / description.FILE).unlink()
    for table in TABLES:
        shutil.rmtree(folder / table, ignore_errors=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until what is inside is done: a row is in memory or in a file, not in both or in none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    missed: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: missed.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if missed and callable(before):
            before(*missed[0])
