"""A run read back from its folder: the report again, and its tables from the part files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from serq.errors import UsageError
from serq.ir import nodes
from serq.ir.codec import decode
from serq.results import frames
from serq.results.answers import Answers, answer
from serq.results.dump import dump_series
from serq.results.engines import EngineFigures, Latency, RequestsElsewhere
from serq.results.groups import By, RequestGroup, group_name, group_order
from serq.results.metrics import RAN_TO_THEIR_END
from serq.results.report import Report
from serq.results.run_folder import description
from serq.results.run_folder.columns import TABLES, Table
from serq.results.run_folder.part_files import PartFiles, PartFormat
from serq.results.run_folder.rows import engine_rows, request_table
from serq.results.run_folder.stored_values import StoredValues
from serq.results.run_folder.unfinished import unfinished
from serq.results.settling import MainSeries
from serq.results.statistics import Summary, summarize_samples
from serq.results.tables import member_namer
from serq.runtime.records import Records, Series
from serq.runtime.request_records import FINISH_REASONS, EngineRow
from serq.source import Diagnostic, SourceMap

if TYPE_CHECKING:
    from pandas import DataFrame

_SERVED = [FINISH_REASONS[place] for place in sorted(RAN_TO_THEIR_END)]


def read_run(folder: str | Path) -> Report:
    """The report of the run that `serq run --out` wrote to ``folder``; its rows stay there until asked for.

    A run that was killed has what it had written: observations, requests and steps, and their figures.
    Raises DataError for a folder that holds no run.
    """
    path = Path(folder)
    found = description.read(path)
    part_format: PartFormat = found["part_format"]
    program = decode(json.dumps(found["program"]).encode())
    if "figures" not in found:
        return StoredReport(path, part_format, unfinished(path, part_format, program), program=program)
    figures = found["figures"]
    run = dict(figures["run"])
    records = Records(
        **{**run, "mean_live": float(run["mean_live"])},
        stages=description.stage_rows(figures),
        pools=description.pool_rows(figures),
        gauges=description.gauge_rows(figures),
        connectors=description.connector_rows(figures),
        prices=description.price_rows(figures),
    )
    engines = [description.engine(plain) for plain in figures["engines"]]
    records.engines = [engine.row for engine in engines]
    records.requests = RequestsElsewhere(figures=lambda _: engines)
    warnings = [description.warning(plain) for plain in found["warnings"]]
    observations = description.summaries(figures)
    records.series = {name: Series(name) for name in observations}
    places = description.source_map(found)
    report = StoredReport(
        path, part_format, records, warnings, observations, program=program, source_map=places
    )
    report.price_per_hour = found.get("price_per_hour")
    if "settling" in figures:
        report.settling = description.settling(figures)
    if "families" in figures:
        report.families = description.families(figures)
    return report


class StoredReport(Report):
    """The report of a run whose rows are in a folder. What it tells is what the run itself told."""

    def __init__(
        self,
        folder: Path,
        part_format: PartFormat,
        records: Records,
        warnings: Sequence[Diagnostic] = (),
        observations: dict[str, Summary] | None = None,
        *,
        program: nodes.Program | None = None,
        source_map: SourceMap | None = None,
    ) -> None:
        """Figures that are not given are taken from the part files when they are asked for."""
        self.folder = folder
        self._parts = {table: PartFiles(folder, table, part_format) for table in TABLES}
        if observations is not None:
            self.observations = observations
        if not isinstance(records.requests, RequestsElsewhere):
            known: list[EngineFigures] = []

            def figures(of: Records) -> list[EngineFigures]:
                if not known:
                    known.extend(self._engine(row, of.warmup) for row in of.engines)
                return known

            records.requests = RequestsElsewhere(figures=figures)
        super().__init__(records, warnings, program, source_map)

    @property
    def _name(self) -> str:
        return super()._name or self.folder.name

    @cached_property
    def observations(self) -> dict[str, Summary]:
        """Observation name -> count, mean, confidence half-width, cv2, p99; in order of the program."""
        return {name: summarize_samples(self._samples(name)) for name in self.records.series}

    def observe(self, name: str) -> DataFrame:
        """The samples of one observation: ``time``, ``session``, ``turn``, ``value`` (R-A-100).

        Raises UsageError for a name that the program does not observe.
        """
        if name not in self.records.series:
            raise UsageError(self._unknown(name))
        if not self._parts["observations"].paths():
            return super().observe(name)
        return self._whole("observations", observation=name).drop(columns="observation").pipe(_whole_turns)

    @cached_property
    def answers(self) -> Answers:
        """What the run answers to the objectives and expectations of the program, from its rows."""
        program = self._program
        if program is None or not (program.objectives or program.expectations):
            return Answers()
        series = {name: self._series(name) for name in self.records.series}
        table = request_table(self.requests, self.records.engines)
        records = replace(self.records, series=series, requests=table)
        return answer(program, self._source_map, records, self.observations)

    @cached_property
    def requests(self) -> DataFrame:
        """One row a request to a `vllm` stage, in the order of sending, from the start of the run."""
        if not self._parts["requests"].paths():
            return frames.request_frame(self.records)
        return self._whole("requests").set_index("request")

    @cached_property
    def steps(self) -> DataFrame:
        """One row a step of a `vllm` stage, engine after engine, from the start of the run."""
        if not self._parts["steps"].paths():
            return frames.step_frame(self.records.engines)
        return self._by_engine(self._whole("steps").drop(columns="step"))

    @cached_property
    def queue(self) -> DataFrame:
        """One row a stay of a request in a lane of a waiting queue, engine after engine, by their ends."""
        if not self._parts["queue"].paths():
            return frames.queue_frame(self.records.engines)
        return self._by_engine(self._whole("queue"))

    @cached_property
    def preemptions(self) -> DataFrame:
        """One row a preemption: who lost what, for whom, and when it was made up for; engine after engine."""
        if not self._parts["preemptions"].paths():
            return frames.preemption_frame(self.records.engines)
        return self._by_engine(self._whole("preemptions"))

    def whole_records(self) -> Records:
        """The records with all their rows in memory."""
        series = {name: self._series(name) for name in self.records.series}
        engines = engine_rows(self.records.engines, self.steps, self.queue, self.preemptions)
        requests = request_table(self.requests, self.records.engines)
        return replace(self.records, series=series, engines=engines, requests=requests)

    def _by_engine(self, frame: DataFrame) -> DataFrame:
        """The rows of a table, engine after engine."""
        import pandas

        engines = [
            frame[(frame["stage"] == row.name) & (frame["member"] == row.member)].reset_index(drop=True)
            for row in self.records.engines
        ]
        return pandas.concat(engines)

    def dump(self, folder: str | Path) -> list[Path]:
        """Write every sample to ``folder``, one CSV file an observation. Raises DataError (R-B-119)."""
        return dump_series(folder, {name: self._series(name) for name in self.records.series})

    def _series(self, name: str) -> Series:
        frame = self.observe(name)
        series = Series(name)
        series.values.extend(frame["value"])
        series.times.extend(frame["time"])
        series.sessions.extend(frame["session"])
        series.turns.extend(frame["turn"])
        return series

    # --- from the part files ----------------------------------------------------------------------------

    def _whole(self, table: Table, **only: str) -> DataFrame:
        import pandas

        parts = []
        for part in self._parts[table].read():
            wanted = pandas.Series(True, index=part.index)
            for column, value in only.items():
                wanted &= part[column] == value
            parts.append(part[wanted])
        return pandas.concat(parts, ignore_index=True)

    def _values(self, table: Table, names: Sequence[str], pick: Callable[[DataFrame], Any]) -> StoredValues:
        """What ``pick`` makes of the columns ``names`` of each part."""
        files = self._parts[table]
        paths = files.paths()
        return StoredValues.of(lambda part: pick(files.read_part(paths[part], names)), len(paths))

    def _samples(self, name: str) -> StoredValues:
        return self._values(
            "observations",
            ("observation", "value"),
            lambda part: part["value"].to_numpy()[(part["observation"] == name).to_numpy()],
        )

    def _main_series(self, name: str) -> MainSeries:
        """The samples of an observation or, where there is none of that name, of a latency of requests."""
        if name in self.records.series:
            times = self._values(
                "observations",
                ("observation", "time"),
                lambda part: part["time"].to_numpy()[(part["observation"] == name).to_numpy()],
            )
            return MainSeries(name, self._samples(name), times.at)
        warmup, latency = self.records.warmup, _TIMES[name]

        def known(part: DataFrame) -> Any:
            return latency(_served(part, warmup)).dropna()

        values = self._values("requests", _READ, lambda part: known(part).to_numpy())
        ended = self._values("requests", _READ, lambda part: part["finish"][known(part).index].to_numpy())
        return MainSeries(name, values, ended.at)

    def _engine(self, row: EngineRow, warmup: float) -> EngineFigures:
        """What the requests of one engine saw that ran to their end, at or after warm-up."""

        def mine(part: DataFrame) -> DataFrame:
            return part[(part["stage"] == row.name) & (part["member"] == row.member)]

        requests, latencies = self._latencies(mine, warmup)
        names = (*_READ, "prompt_tokens")
        parts = [mine(_served(part, warmup)) for part in self._parts["requests"].read(names)]
        return EngineFigures(
            row=row,
            requests=requests,
            **latencies,
            input_tokens=int(sum(part["prompt_tokens"].sum() for part in parts)),
            output_tokens=int(sum(part["generated"].sum() for part in parts)),
            span=self.records.end - warmup,
        )

    def _latencies(
        self, mine: Callable[[DataFrame], DataFrame], warmup: float
    ) -> tuple[int, dict[str, Latency]]:
        """How many requests ``mine`` picks of those that ran to their end, and what they saw."""

        def values(time: Callable[[DataFrame], Any]) -> StoredValues:
            def pick(part: DataFrame) -> Any:
                return time(mine(_served(part, warmup))).dropna().to_numpy()

            return self._values("requests", _READ, pick)

        found = {metric: values(time) for metric, time in _TIMES.items()}
        return len(found["e2e"]), {metric: Latency.of_samples(of) for metric, of in found.items()}

    def _groups(self, by: By) -> list[RequestGroup]:
        """Latencies by group, from the part files."""
        import pandas

        if not self._parts["requests"].paths():
            return []
        warmup = self.records.warmup
        namer = member_namer(self.records.engines)
        names = {(row.name, row.member): namer(row) for row in self.records.engines}

        def values(part: DataFrame) -> Any:
            if by != "engine":
                return part[by]
            keys = zip(part["stage"], part["member"], strict=True)
            return pandas.Series([names[key] for key in keys], index=part.index, dtype="object")

        seen: dict[str, Any] = {}
        for part in self._parts["requests"].read(_READ):
            for value in values(_served(part, warmup)).unique():
                seen.setdefault(group_name(by, value), value)
        out = []
        for name in sorted(seen, key=lambda name: group_order(by, seen[name], self.records)):
            wanted = seen[name]

            def mine(part: DataFrame, wanted: Any = wanted) -> DataFrame:
                found = values(part)
                inside: DataFrame = part[found.isna() if pandas.isna(wanted) else found == wanted]
                return inside

            requests, latencies = self._latencies(mine, warmup)
            out.append(RequestGroup(name, requests, **latencies))
        return out


_READ: Final = (
    *("stage", "member", "class", "handle", "session", "turn", "finish_reason", "finish"),
    *("sent", "first_token", "last_token", "generated"),
)
"""The columns of requests that latencies and groups are made of."""


def _served(part: DataFrame, warmup: float) -> DataFrame:
    return part[part["finish_reason"].isin(_SERVED) & (part["finish"] >= warmup)]


def _tpot(part: DataFrame) -> Any:
    several = part[part["generated"] > 1]
    return (several["last_token"] - several["first_token"]) / (several["generated"] - 1)


_TIMES: Final[dict[str, Callable[[DataFrame], Any]]] = {
    "ttft": lambda part: part["first_token"] - part["sent"],
    "tpot": _tpot,
    "e2e": lambda part: part["last_token"] - part["sent"],
    "normalized_latency": lambda part: (part["last_token"] - part["sent"]) / part["generated"],
}
"""The latencies of requests as :mod:`serq.results.metrics` has them, of whole columns."""


def _whole_turns(frame: DataFrame) -> DataFrame:
    """`turn` in whole numbers, unless the program assigned something else."""
    frame = frame.reset_index(drop=True)
    return frame.astype({"turn": "int64"}) if (frame["turn"] % 1 == 0).all() else frame
