"""The first lines of a report: the answer, what was served, what it was matched with, on which evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from serq.ir.wording import counted
from serq.results.engines import EngineFigures, Latency
from serq.results.evidence import costs_text
from serq.results.modelled import matched
from serq.results.tables import figure

if TYPE_CHECKING:
    from serq.results.answers import Answers
    from serq.results.money import MoneyRow
    from serq.results.objectives import ObjectiveRow
    from serq.results.report import Report
    from serq.results.statistics import Summary
    from serq.runtime.records import Records

_SHOWN: Final = 3
"""Stages, observations or missed objectives that a line names; of the others it says how many there are."""
_LONGEST: Final = 160
"""Characters of a warning that stand in its line."""


class Line(msgspec.Struct, frozen=True):
    """One of the first lines: what it is about, and what it says."""

    about: str
    says: str


def opening(report: Report) -> list[Line]:
    """The first lines; those that a run has nothing for are left out."""
    lines = [
        Line("answer", "; ".join(_answer(report.answers, report.records))),
        Line("served", "; ".join(_served(report))),
    ]
    if report.program is not None:
        lines.append(Line("matched", matched(report.program)))
        lines.append(Line("costs", costs_text(report.program, report.records.prices)))
    if report.money:
        lines.append(Line("money", _money(report.money[0])))
    lines.append(Line("warnings", _warnings(report)))
    return [line for line in lines if line.says]


# --- what was asked ----------------------------------------------------------------------------------------


def _answer(answers: Answers, records: Records) -> Iterator[str]:
    if records.stopped is not None:
        reached = f"stopped at {figure(records.end)} s of {figure(records.horizon)} s"
        yield f"{reached}: {_shortened(records.stopped)}"
    if answers.objectives:
        yield _objectives(answers.objectives)
    for row in answers.goodput[:1]:
        if isfinite(row.share):
            yield f"goodput {row.per_second:.4g} requests/s, {100 * row.share:.1f} % of all"
    count = len(answers.expectations)
    if count and records.stopped is None:
        failed = answers.failed
        said = f"{count - len(failed)} of {count} expectations hold"
        yield f"{said}, not `{failed[0].text.removeprefix('expect ')}`" if failed else said


def _objectives(rows: Sequence[ObjectiveRow]) -> str:
    missed = [row for row in rows if row.met is False]
    undecided = sum(row.met is None for row in rows)
    said = f"{sum(row.met is True for row in rows)} of {len(rows)} objectives met"
    if undecided:
        said += f", {undecided} undecided"
    if missed:
        said += f", missed {', '.join(map(_missed, missed[:_SHOWN]))}{_more(len(missed))}"
    return said


def _missed(row: ObjectiveRow) -> str:
    within = "" if isnan(row.within) else f", {100 * row.within:.1f} % within"
    measured = f"{row.measured:.4g}" if isfinite(row.measured) else "without end"
    return f"`{row.objective}` (measured {measured}{within})"


# --- what was served ---------------------------------------------------------------------------------------


class Latencies(Protocol):
    """What requests of a stage saw: of its one engine, or of its members together."""

    @property
    def ttft(self) -> Latency:
        """Time to first token."""

    @property
    def tpot(self) -> Latency:
        """Time per output token."""


def _served(report: Report) -> Iterator[str]:
    engines = report.engine_figures
    if not engines:
        yield from _sessions(report)
        return
    stages: dict[str, list[EngineFigures]] = {}
    for engine in engines:
        stages.setdefault(engine.row.name, []).append(engine)
    families: Mapping[str, Latencies] = {group.name: group for group in report.families}
    for name, members in list(stages.items())[:_SHOWN]:
        said = list(_requests(members, families.get(name, members[0])))
        yield f"`{name}` {', '.join(said)}" if len(stages) > 1 else "; ".join(said)
    if len(stages) > _SHOWN:
        yield _more(len(stages)).removeprefix(" and ").strip() + " stages"


def _requests(members: Sequence[EngineFigures], seen: Latencies) -> Iterator[str]:
    requests = sum(engine.requests for engine in members)
    if not requests:
        yield "no request"
        return
    a_second = sum(engine.request_throughput for engine in members)
    tokens = sum(engine.output_throughput for engine in members)
    yield f"{_count(requests, 'request')}, {a_second:.4g}/s, {tokens:.4g} output tokens/s"
    for name, latency in (("TTFT", seen.ttft), ("TPOT", seen.tpot)):
        if isfinite(latency.p99):
            yield f"{name} p50 {latency.p50:.4g}, p99 {latency.p99:.4g} s"


def _sessions(report: Report) -> Iterator[str]:
    records = report.records
    span = records.end - records.warmup
    rate = f", {records.ended / span:.4g}/s" if span > 0 else ""
    yield f"{_count(records.ended, 'session')}{rate}"
    seen = {name: row for name, row in report.observations.items() if row.count}
    for name, row in list(seen.items())[:_SHOWN]:
        yield f"`{name}` {_observed(row)}"
    if len(seen) > _SHOWN:
        yield _more(len(seen)).removeprefix(" and ").strip() + " observations"


def _observed(row: Summary) -> str:
    return f"mean {row.mean:.4g}, p50 {row.p50:.4g}, p99 {row.p99:.4g}"


def _money(row: MoneyRow) -> str:
    said = f"{row.money:.4g} for {row.device_hours:.4g} device-hours of {_count(row.devices, 'device')}"
    if isfinite(row.per_million_output_tokens):
        said += f"; {row.per_million_output_tokens:.4g} per million output tokens"
    return said


# --- what to mind ------------------------------------------------------------------------------------------


def _warnings(report: Report) -> str:
    warnings = report.warnings
    if not warnings:
        return "none"
    first = warnings[0]
    where = f"{first.owner}: " if first.owner else ""
    told = "" if len(warnings) == 1 else "the first: "
    return f"{len(warnings)}, {told}{where}{_shortened(first.message)} [{first.code}]"


def _shortened(text: str) -> str:
    line = text.splitlines()[0]
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _count(number: int, noun: str) -> str:
    return counted(number, noun, figure(number))


def _more(count: int) -> str:
    return f" and {count - _SHOWN} more" if count > _SHOWN else ""
