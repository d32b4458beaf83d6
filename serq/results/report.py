"""The report of a run: what a person, a notebook or a script asks it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from serq.errors import UsageError
from serq.ir import nodes
from serq.results import dump, frames, json_form, tables, text
from serq.results.answers import Answers, answer
from serq.results.contents import Contents
from serq.results.engines import EngineFigures, engine_figures
from serq.results.evidence import costs_data
from serq.results.groups import BY, By, RequestGroup, group_name, request_groups
from serq.results.modelled import modelled
from serq.results.money import MoneyRow, money_rows
from serq.results.opening import opening
from serq.results.settling import MainSeries, Settling, main_name, requests_series, settling
from serq.results.statistics import Summary, in_memory, summarize
from serq.results.step_listing import step_tables
from serq.results.tables import notes
from serq.runtime.records import Records
from serq.source import Diagnostic, SourceMap

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


class Report:
    """Everything a run recorded, as figures and tables. Printing it shows the whole of it."""

    def __init__(
        self,
        records: Records,
        warnings: Sequence[Diagnostic] = (),
        program: nodes.Program | None = None,
        source_map: SourceMap | None = None,
    ) -> None:
        """``warnings`` are those of compiling the program; the records bring those of the run.

        ``program`` and where its text stands say what the program asks of its run (`slo`, `expect`).
        """
        self.records = records
        self._program = program
        self._source_map = source_map
        self.warnings: Final = (*warnings, *records.warnings)
        """What was accepted, but deserves a look."""
        self.price_per_hour: float | None = None
        """What a device costs an hour; where it is given, the report says what the run costs."""

    @cached_property
    def observations(self) -> dict[str, Summary]:
        """Observation name -> count, mean, confidence half-width, cv2, p99; in order of the program."""
        return {name: summarize(series.values) for name, series in self.records.series.items()}

    def observe(self, name: str) -> DataFrame:
        """The samples of one observation: ``time``, ``session``, ``turn``, ``value`` (R-A-100).

        Raises UsageError for a name that the program does not observe.
        """
        series = self.records.series.get(name)
        if series is None:
            raise UsageError(self._unknown(name))
        return frames.observation_frame(series)

    @cached_property
    def summary(self) -> DataFrame:
        """The figures of all observations, indexed by name."""
        return frames.summary_frame(self.observations)

    @cached_property
    def stages(self) -> DataFrame:
        """One row a stage member (R-B-110 to R-B-112)."""
        return frames.stage_frame(self.records.stages)

    @cached_property
    def pools(self) -> DataFrame:
        """One row a pool member (R-B-113)."""
        return frames.pool_frame(self.records.pools)

    @cached_property
    def connectors(self) -> DataFrame:
        """One row a connector: fetches, those that failed, offloads, those that were refused."""
        return frames.connector_frame(self.records.connectors)

    @cached_property
    def gauges(self) -> DataFrame:
        """One row a gauge: time-weighted mean, smallest and largest value."""
        return frames.gauge_frame(self.records.gauges)

    @cached_property
    def engine_figures(self) -> list[EngineFigures]:
        """What the requests of every engine saw, in the order of declaration."""
        return engine_figures(self.records)

    @cached_property
    def engines(self) -> DataFrame:
        """One row a member of a `vllm` stage: its figures since warm-up."""
        return frames.engine_frame(self.engine_figures)

    @cached_property
    def requests(self) -> DataFrame:
        """One row a request to a `vllm` stage, in the order of sending, from the start of the run."""
        return frames.request_frame(self.records)

    @cached_property
    def steps(self) -> DataFrame:
        """One row a step of a `vllm` stage, engine after engine, from the start of the run."""
        return frames.step_frame(self.records.engines)

    @cached_property
    def queue(self) -> DataFrame:
        """One row a stay of a request in a lane of a waiting queue, engine after engine, by their ends."""
        return frames.queue_frame(self.records.engines)

    @cached_property
    def preemptions(self) -> DataFrame:
        """One row a preemption: who lost what, for whom, and when it was made up for; engine after engine."""
        return frames.preemption_frame(self.records.engines)

    def whole_records(self) -> Records:
        """The records with all their rows in memory, wherever they are."""
        return self.records

    def list_steps(self, first: int = 1, last: int = 2**63, *, stage: str | None = None) -> str:
        """The steps number ``first`` to ``last`` of every engine, or of those of ``stage``, as text.

        Needs a run with ``steps=True``. Raises UsageError for another one and for a stage that is none.
        """
        if not any(engine.rows is not None for engine in self.records.engines):
            raise UsageError("this run did not keep its steps, or has no vllm stage: run it with steps=True")
        return text.tables_text(step_tables(self.records.engines, first, last, stage))

    @cached_property
    def answers(self) -> Answers:
        """What the run answers to the objectives and expectations of the program."""
        if self._program is None:
            return Answers()
        return answer(self._program, self._source_map, self.records, self.observations)

    @cached_property
    def objectives(self) -> DataFrame:
        """One row an `slo`: the statistic, the share within the limit with its 95 % interval, met or not."""
        return frames.objective_frame(self.answers.objectives)

    @cached_property
    def goodput(self) -> DataFrame:
        """Requests within all limits of their class: of all requests, then of each class."""
        return frames.goodput_frame(self.answers.goodput)

    def groups(self, by: By) -> list[RequestGroup]:
        """What the requests of each class, handle, stage, … saw, of those served since warm-up.

        Raises UsageError for anything else to group by.
        """
        if by not in BY:
            raise UsageError(f"requests are not grouped by `{by}`; there are {', '.join(BY)}")
        return self._groups(by)

    def _groups(self, by: By) -> list[RequestGroup]:
        return request_groups(self.records, by)

    def by(self, by: By) -> DataFrame:
        """The same as a table, indexed by the name of the group. Raises UsageError."""
        return frames.group_frame(self.groups(by))

    def list_groups(self, by: By) -> str:
        """The same as text. Raises UsageError."""
        return text.tables_text([tables.group_table(self.groups(by))])

    @cached_property
    def classes(self) -> list[RequestGroup]:
        """What the requests of each class saw; empty where no request has a class."""
        labels = self.records.requests.label
        if len(labels) and all(map(isnan, labels)):
            return []
        groups = self.groups("class") if self.records.engines else []
        return groups if any(group.name != group_name("class", nan) for group in groups) else []

    @property
    def program(self) -> nodes.Program | None:
        """What was run; None where only its records are known."""
        return self._program

    @property
    def _name(self) -> str:
        """What a title calls the run: the file of its program; empty for a text of no file."""
        name = "" if self._source_map is None else Path(self._source_map.source.name).name
        return "" if name.startswith("<") else name

    @property
    def program_text(self) -> str | None:
        """The text of the program, where it was compiled from one."""
        return None if self._source_map is None else self._source_map.source.text

    @property
    def stopped(self) -> str | None:
        """Why the run ended before its end; None: it finished."""
        return self.records.stopped

    @property
    def clock_reason(self) -> str | None:
        """Why the run was on the clock; None: it ran ahead of it (docs/engine.md).

        The figures are the same either way. None as well for a run that was killed, or kept by an earlier
        serq.
        """
        return self.records.clock_reason

    def to_dict(self, by: Sequence[By] = ()) -> dict[str, Any]:
        """The report as plain data, in the shape of :meth:`to_json`. Raises UsageError for a wrong ``by``."""
        out = json_form.as_dict(
            self.records, self.engine_figures, self.observations, self.answers, self.classes
        )
        if self._program is not None and (self.records.engines or self.records.prices):
            out["models"] = modelled(self._program)
            out["costs"] = costs_data(self._program, self.records.prices)
        if self.money:
            out["money"] = json_form.money_data(self.money)
        if by:
            out["groups"] = {one: json_form.groups_data(self.groups(one)) for one in by}
        return out

    def to_json(self, by: Sequence[By] = ()) -> str:
        """The report as one line of JSON (R-B-118): null for what is not finite.

        With ``by`` what requests of each class, engine, … saw stands under `groups`. Raises UsageError.
        """
        return json_form.as_json(self.to_dict(by))

    def text(self, by: Sequence[By] = ()) -> str:
        """The report as text, then the requests ``by`` their class, engine, …. Raises UsageError."""
        return "\n\n".join([repr(self), *map(self.list_groups, by)])

    def dump(self, folder: str | Path) -> list[Path]:
        """Write every sample to ``folder``, one CSV file an observation. Raises DataError (R-B-119)."""
        return dump.dump_series(folder, self.records.series)

    def plot(self, name: str = "latency") -> Figure:
        """A picture of the run: `latency`, `timeline`, `composition` or `budget` (docs/pictures.md).

        Raises UsageError for another name, and where the run has nothing of the kind.
        """
        from serq.results.plots import FIGURES

        if name not in FIGURES:
            raise UsageError(f"no picture `{name}`; there are " + ", ".join(f"`{n}`" for n in FIGURES))
        return FIGURES[name](self.whole_records(), self._name)

    @property
    def money(self) -> list[MoneyRow]:
        """What the run costs, all engines together and by stage; empty where no price is given."""
        if self.price_per_hour is None or self._program is None:
            return []
        return money_rows(self._program, self.records, self.engine_figures, self.price_per_hour)

    @cached_property
    def families(self) -> list[RequestGroup]:
        """What the requests of every `vllm` stage with several members saw, whichever member served them."""
        names = {row.name for row in self.records.engines if row.member > 0}
        return [group for group in self._groups("stage") if group.name in names] if names else []

    @cached_property
    def settling(self) -> Settling | None:
        """What is wrong with the warm-up by MSER-5 on the main observation; None: nothing, or it was stopped.

        The main observation is what the first `slo` limits, else time to first token, else the first
        observation (docs/metrics.md).
        """
        name = main_name(self._program, self.observations, bool(self.records.engines))
        if name is None or self.stopped is not None:
            return None
        return settling(self._main_series(name))

    def _main_series(self, name: str) -> MainSeries:
        """The samples of an observation or, where there is none of that name, of a latency of requests."""
        series = self.records.series.get(name)
        if series is not None:
            return MainSeries(name, in_memory(series.values), series.times.__getitem__)
        values, times = requests_series(self.records, name)
        return MainSeries(name, in_memory(values), times.__getitem__)

    @property
    def contents(self) -> Contents:
        """What the report shows, in its order."""
        told = notes(self.observations, self.records.pools)
        if self.settling is not None:
            told.append(self.settling.note())
        return Contents(
            opening=opening(self),
            headline=text.headline(self.records),
            tables=tables.report_tables(
                self.records,
                self.engine_figures,
                self.observations,
                self.answers,
                self.classes,
                self.money,
            ),
            notes=told,
            warnings=self.warnings,
            outcomes=self.answers.remarks(),
            stopped=self.stopped,
        )

    def __repr__(self) -> str:
        return text.as_text(self.contents)

    def _repr_html_(self) -> str:
        from serq.results.html import as_html  # only notebooks ask

        return as_html(self.contents)

    def _unknown(self, name: str) -> str:
        known = list(self.records.series)
        if self.records.engines and name in ("ttft", "tpot", "itl", "e2e", "queue_time"):
            return (
                f"no observation `{name}`: that of requests to `vllm` stages is in `report.engines`, and of "
                "each request in `report.requests`"
            )
        if not known:
            return f"no observation `{name}`: the program observes nothing"
        from difflib import get_close_matches  # only mistakes need it

        close = get_close_matches(name, known, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "there are " + ", ".join(f"`{n}`" for n in known)
        return f"no observation `{name}`; {hint}"
