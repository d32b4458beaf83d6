"""The tables that a report shows, as rows of text: the text form and the HTML form lay out the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from serq.ir.wording import counted
from serq.kernels.executor import Evidence
from serq.results.answers import Answers
from serq.results.engines import METRICS, EngineFigures, Latency
from serq.results.objectives import GoodputRow, ObjectiveRow
from serq.results.statistics import Summary
from serq.runtime.pricing import PriceLedger, PriceRow
from serq.runtime.records import ConnectorRow, GaugeRow, PoolRow, Records, StageRow
from serq.runtime.request_records import EngineRow, OptionValue

if TYPE_CHECKING:
    from serq.results.groups import RequestGroup
    from serq.results.money import MoneyRow
    from serq.results.waiting_reasons import EngineWaiting

_ENOUGH_SAMPLES: Final = 40
"""From this many samples on, an observation that was always 0 is worth a note (R-B-118)."""


class Table(msgspec.Struct, frozen=True):
    """Headings and cells; the first column holds names, all others hold figures, or ``words`` as well."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False


def figure(value: float | int) -> str:
    """A figure as people read it: six significant digits, a dash for what is not determined."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.6g}" if isfinite(value) else "-"


def report_tables(
    records: Records,
    engines: Sequence[EngineFigures],
    summaries: Mapping[str, Summary],
    answers: Answers,
    classes: Sequence[RequestGroup] = (),
    money: Sequence[MoneyRow] = (),
) -> list[Table]:
    """The tables of a report that have rows, in the order in which they are shown."""
    tables = (
        objective_table(answers.objectives),
        goodput_table(answers.goodput),
        observation_table(summaries),
        gauge_table(records.gauges),
        connector_table(records.connectors),
        stage_table(records.stages),
        pool_table(records.pools),
        engine_table(engines),
        throughput_table(engines),
        money_table(money),
        latency_table(engines),
        group_table(classes),
        memory_table(records.engines),
        state_table(records.engines),
        price_table(records.prices),
        setting_table(records.prices),
        option_table(records.engines),
    )
    return [table for table in tables if table.rows]


def observation_table(summaries: Mapping[str, Summary]) -> Table:
    """One row an observation: mean and quantiles with their 95 % intervals, and the extremes."""
    headings = (
        *("observation", "count", "mean", "± 95 %", "cv2"),
        *("p50", "95 %", "p99", "95 %", "smallest", "largest"),
    )
    rows = (
        (
            name,
            *_figures(row, ("count", "mean", "ci", "cv2", "p50")),
            _between(row.p50_low, row.p50_high),
            figure(row.p99),
            _between(row.p99_low, row.p99_high),
            *_figures(row, ("smallest", "largest")),
        )
        for name, row in summaries.items()
    )
    return Table(headings, tuple(rows))


_CONNECTOR_COLUMNS: Final = {
    "fetches": "fetches",
    "failed": "failed",
    "mean_tokens": "mean tokens",
    "mean_time": "mean time",
    "offloads": "offloads",
    "refused": "refused",
}


def connector_table(connectors: Sequence[ConnectorRow]) -> Table:
    """One row a connector."""
    rows = tuple((row.name, *_figures(row, tuple(_CONNECTOR_COLUMNS))) for row in connectors)
    return Table(("connector", *_CONNECTOR_COLUMNS.values()), rows)


_STAGE_COLUMNS: Final = {
    "mean_number": "mean number",
    "utilization": "utilization",
    "completed": "completed",
    "throughput": "throughput",
    "mean_wait": "mean wait",
    "mean_service": "mean service",
}
_STEP_COLUMNS: Final = {"iterations": "iterations"}
_POOL_COLUMNS: Final = {
    "mean_used": "mean used",
    "mean_holders": "mean holders",
    "mean_queue": "mean queue",
    "mean_wait": "mean wait",
    "admissions": "admissions",
}
_POOL_INCIDENTS: Final = {
    "mean_cached": "mean cached",
    "evicted_entries": "evicted entries",
    "evicted_units": "evicted units",
    "preemptions": "preemptions",
    "spills": "spills",
    "rejected": "rejected",
    "stuck": "stuck",
}
"""Columns that are shown only where something of the kind happened."""


def objective_table(rows: Sequence[ObjectiveRow]) -> Table:
    """One row an `slo`."""
    columns = ("measured", "within", "low", "high", "requests", "undecided")
    headings = ("slo", "measured", "share within", "95 % from", "to", "requests", "undecided", "met")
    met = {True: "yes", False: "no", None: "-"}
    return Table(headings, tuple((row.objective, *_figures(row, columns), met[row.met]) for row in rows))


def goodput_table(rows: Sequence[GoodputRow]) -> Table:
    """Requests within all limits of their class: of all requests, then of each class."""
    columns = ("good", "per_second", "share", "low", "high")
    headings = ("goodput", "requests", "per second", "share", "95 % from", "to")
    return Table(headings, tuple((row.about, *_figures(row, columns)) for row in rows))


def gauge_table(gauges: Sequence[GaugeRow]) -> Table:
    """One row a gauge."""
    fields = ("mean", "smallest", "largest")
    return Table(("gauge", *fields), tuple((gauge.name, *_figures(gauge, fields)) for gauge in gauges))


def stage_table(rows: Sequence[StageRow]) -> Table:
    """One row a stage member."""
    return _member_table("stage", rows, _STAGE_COLUMNS, _STEP_COLUMNS)


def pool_table(rows: Sequence[PoolRow]) -> Table:
    """One row a pool member."""
    return _member_table("pool", rows, _POOL_COLUMNS, _POOL_INCIDENTS)


_ENGINE_COLUMNS: Final = {
    "steps": "steps",
    "tokens": "tokens",
    "preemptions": "preemptions",
    "prefix_hit_rate": "prefix hit rate",
    "mean_kv_usage": "mean KV usage",
}


def engine_table(engines: Sequence[EngineFigures]) -> Table:
    """One row a `vllm` engine: what it did."""
    name = member_namer([engine.row for engine in engines])
    columns = dict(_ENGINE_COLUMNS)
    if any(engine.row.dummy_steps for engine in engines):
        columns["dummy_steps"] = "dummy steps"
    rows = ((name(engine.row), figure(engine.requests), *_figures(engine.row, columns)) for engine in engines)
    return Table(("engine", "requests ended", *columns.values()), tuple(rows))


def latency_table(engines: Sequence[EngineFigures]) -> Table:
    """One row a `vllm` engine and latency: what the requests that ended there saw."""
    name = member_namer([engine.row for engine in engines])
    return _latencies("latency", [(name(engine.row), engine) for engine in engines])


def group_table(groups: Sequence[RequestGroup]) -> Table:
    """One row a group of requests and latency."""
    return _latencies("requests of", [(group.name, group) for group in groups])


def _latencies(heading: str, owners: Sequence[tuple[str, EngineFigures | RequestGroup]]) -> Table:
    """Mean and quantiles with their 95 % intervals."""
    headings = (
        heading,
        "requests",
        "mean",
        "± 95 %",
        *(h for name in QUANTILES_SHOWN for h in (name, "95 %")),
    )
    rows = []
    for owner, figures in owners:
        for metric in METRICS:
            latency: Latency = getattr(figures, metric)
            ends = [(getattr(latency, f"{q}_low"), getattr(latency, f"{q}_high")) for q in QUANTILES_SHOWN]
            quantiles = zip(
                _figures(latency, QUANTILES_SHOWN), (_between(*both) for both in ends), strict=True
            )
            cells = [cell for both in quantiles for cell in both]
            rows.append(
                (f"{owner} {metric}", str(figures.requests), *_figures(latency, ("mean", "ci")), *cells)
            )
    return Table(headings, tuple(rows))


def _between(low: float, high: float) -> str:
    """The ends of an interval; a dash for a side, or both, that is not determined."""
    ends = [f"{end:.4g}" if isfinite(end) else "-" for end in (low, high)]
    return "-" if ends == ["-", "-"] else " to ".join(ends)


QUANTILES_SHOWN: Final = ("p50", "p90", "p99")


def throughput_table(engines: Sequence[EngineFigures]) -> Table:
    """One row a `vllm` engine: what it served a second."""
    name = member_namer([engine.row for engine in engines])
    columns = ("request_throughput", "input_throughput", "output_throughput")
    rows = tuple((name(engine.row), *_figures(engine, columns)) for engine in engines)
    return Table(("throughput", "requests/s", "input tokens/s", "output tokens/s"), rows)


_MONEY_COLUMNS: Final = {
    "devices": "devices",
    "device_hours": "device-hours",
    "money": "money",
    "per_million_output_tokens": "per million output tokens",
    "per_million_tokens": "per million tokens",
}


def money_table(rows: Sequence[MoneyRow]) -> Table:
    """What all engines cost, then those of each stage."""
    columns = _MONEY_COLUMNS
    cells = tuple((row.about, *_figures(row, columns)) for row in rows)
    return Table(("cost of", *columns.values()), cells)


_MEMORY_COLUMNS: Final = {
    "mean_kv_blocks": "KV blocks mean",
    "most_kv_blocks": "most",
    "mean_state_blocks": "state blocks mean",
    "most_state_blocks": "most",
    "usable": "blocks",
}


def memory_table(engines: Sequence[EngineRow]) -> Table:
    """One row a `vllm` engine whose model has recurrent states: what its blocks hold."""
    name = member_namer(engines)
    rows = (
        (name(engine), *_figures(engine.memory, _MEMORY_COLUMNS))
        for engine in engines
        if engine.memory is not None
    )
    return Table(("memory", *_MEMORY_COLUMNS.values()), tuple(rows))


def state_table(engines: Sequence[EngineRow]) -> Table:
    """One row a `vllm` engine and attention state: its steps and their tokens, and the shares of both."""
    headings = ("attention state", "steps", "share of steps", "tokens", "share of tokens")
    if all(engine.rows is None for engine in engines):
        return Table(headings, ())
    from serq.results.step_layouts import state_shares  # brings the device layouts along

    name = member_namer(engines)

    rows = tuple(
        (
            f"{name(share.engine)} {share.state}",
            figure(share.steps),
            figure(share.steps / share.engine.steps),
            figure(share.tokens),
            figure(share.tokens / share.engine.tokens),
        )
        for share in state_shares(engines)
    )
    return Table(headings, rows)


def price_table(prices: Sequence[PriceRow]) -> Table:
    """One row an operator of a stage that an executor prices: its seconds, and how good their evidence is."""
    found = [evidence for evidence in Evidence if any(_seconds(row.ledger, evidence) for row in prices)]
    rows: list[tuple[str, ...]] = []
    for row in prices:
        total = row.ledger.seconds
        for operator, seconds in row.ledger.operators.items():
            own = sum(seconds.values())
            shares = [percentage(own, total), *(percentage(seconds.get(e, 0.0), own) for e in found)]
            rows.append((f"{row.stage}: {operator}", figure(own), *shares))
        if row.ledger.steps:
            shares = [percentage(total, total), *(percentage(_seconds(row.ledger, e), total) for e in found)]
            rows.append((f"{row.stage}: all of {row.ledger.steps} steps", figure(total), *shares))
    return Table(("price", "seconds", "share", *(evidence.value for evidence in found)), tuple(rows))


def setting_table(prices: Sequence[PriceRow]) -> Table:
    """One row a figure that the prices of an executor rest on, and where it comes from."""
    rows = (
        (f"{row.executor}: {setting.name}", setting.value, setting.source)
        for row in {row.executor: row for row in prices}.values()
        for setting in row.settings
    )
    return Table(("executor", "value", "source"), tuple(rows), words=True)


def _seconds(ledger: PriceLedger, evidence: Evidence) -> float:
    return sum(seconds.get(evidence, 0.0) for seconds in ledger.operators.values())


def percentage(part: float, whole: float) -> str:
    """A share as people read it; a dash of nothing."""
    return f"{100.0 * part / whole:.1f} %" if whole > 0.0 and part > 0.0 else "-"


def option_table(engines: Sequence[EngineRow]) -> Table:
    """One row an option, one column a `vllm` stage: every option as it was resolved."""
    stages = {engine.name: dict(engine.options) for engine in engines}
    names = dict.fromkeys(name for options in stages.values() for name in options)
    rows = ((name, *(option_text(options.get(name)) for options in stages.values())) for name in names)
    return Table(("option", *stages), tuple(rows))


def option_text(value: OptionValue) -> str:
    """An option as the program would write it; a dash where nothing is set."""
    if isinstance(value, bool):
        return str(value).lower()
    return "-" if value is None else str(value)


def _member_table(
    kind: str, rows: Sequence[StageRow] | Sequence[PoolRow], always: dict[str, str], incidents: dict[str, str]
) -> Table:
    happened = {
        field: heading for field, heading in incidents.items() if any(getattr(r, field) for r in rows)
    }
    columns = always | happened
    name = member_namer(rows)
    return Table((kind, *columns.values()), tuple((name(row), *_figures(row, columns)) for row in rows))


def _figures(row: object, fields: Iterable[str]) -> list[str]:
    return [figure(getattr(row, field)) for field in fields]


def member_namer(
    rows: Sequence[StageRow] | Sequence[PoolRow] | Sequence[EngineRow] | Sequence[EngineWaiting],
) -> Callable[[Any], str]:
    """How to name a row: ``kv[1]`` in a family of several members, else the plain name."""
    families = {row.name for row in rows if row.member > 0}
    return lambda row: f"{row.name}[{row.member}]" if row.name in families else str(row.name)


def notes(summaries: Mapping[str, Summary], pools: Sequence[PoolRow]) -> list[str]:
    """What a reader might miss: observations that were always 0, sessions that are stuck, rejections."""
    out = [
        f"`{name}` was 0 in all {row.count} samples"
        for name, row in summaries.items()
        if row.count >= _ENOUGH_SAMPLES and row.smallest == row.largest == 0
    ]
    name_of = member_namer(pools)
    for pool in pools:
        if pool.stuck:
            out.append(
                f"pool `{name_of(pool)}`: {counted(pool.stuck, 'session')} preempted again without progress"
            )
        if pool.rejected:
            sessions = counted(pool.rejected, "session")
            out.append(f"pool `{name_of(pool)}`: {sessions} rejected, too big for it")
    return out
