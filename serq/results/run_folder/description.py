"""`run.json`: what a run folder holds, what was run, and what it came to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from serq.errors import DataError
from serq.ir import nodes
from serq.ir.codec import encode
from serq.kernels.executor import Evidence
from serq.kernels.registry import Origin, Setting
from serq.results.engines import METRICS, EngineFigures, Latency
from serq.results.groups import RequestGroup
from serq.results.json_form import RUN_FIELDS
from serq.results.modelled import modelled
from serq.results.run_folder.columns import TABLES, described
from serq.results.settling import Settling
from serq.results.statistics import Summary
from serq.results.whole_files import write_whole
from serq.runtime.pricing import OutsideRow, PriceLedger, PriceRow
from serq.runtime.records import ConnectorRow, GaugeRow, PoolRow, StageRow
from serq.runtime.request_records import EngineRow, StepTable
from serq.runtime.serving.hybrid_memory import MemoryRow
from serq.source import Diagnostic, Place, SourceFile, SourceMap, Span, read_text

if TYPE_CHECKING:
    from serq.results.report import Report

FILE: Final = "run.json"
VERSION: Final = 1
Plain = dict[str, Any]
Row = TypeVar("Row")


def of_start(program: nodes.Program, part_format: str) -> Plain:
    """The description of a run that has just begun: nothing is known of its end."""
    return {
        "run_folder": VERSION,
        "state": "running",
        "part_format": part_format,
        "tables": {table: {"columns": described(table)} for table in TABLES},
        "models": modelled(program),
        "settings": msgspec.structs.asdict(program.run),
        "program": json.loads(encode(program)),
    }


def of_report(
    program: nodes.Program, part_format: str, report: Report, source_map: SourceMap | None = None
) -> Plain:
    """The description of a run that ended: ``report`` as people and scripts read it, and without loss."""
    records = report.records
    out = of_start(program, part_format)
    out["state"] = "complete" if records.stopped is None else "stopped"
    out["report"] = report.to_dict()
    out["price_per_hour"] = report.price_per_hour
    out["warnings"] = [_warning(warning) for warning in report.warnings]
    if source_map is not None and source_map.expectations:
        out["expected_at"] = _places(source_map.expectations)
    out["figures"] = {
        "run": {name: _written(getattr(records, name)) for name in (*RUN_FIELDS, "stopped", "clock_reason")},
        "observations": {name: _row(summary) for name, summary in report.observations.items()},
        "stages": [_row(row) for row in records.stages],
        "pools": [_row(row) for row in records.pools],
        "gauges": [_row(row) for row in records.gauges],
        "connectors": [_row(row) for row in records.connectors],
        "engines": [_engine(figures) for figures in report.engine_figures],
        "prices": [_price(row) for row in records.prices],
        "settling": None if report.settling is None else _row(report.settling),
        "families": [_group(group) for group in report.families],
    }
    return out


def write(folder: Path, description: Plain) -> None:
    """Replace `run.json` by ``description``, in whole. Raises DataError where it cannot be written."""
    write_whole(folder / FILE, json.dumps(description, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def read(folder: Path) -> Plain:
    """The description in ``folder``. Raises DataError for a folder of no run, or of another version."""
    path = folder / FILE
    if folder.is_dir() and not path.exists():
        study = (folder / "study.json").exists()
        hint = "; it holds a study, which `serq plot` draws" if study else ""
        raise DataError(f"{folder}: is no run folder: it has no {FILE}{hint}")
    try:
        found = json.loads(read_text(path, "run"))
    except ValueError as error:
        raise DataError(f"{path}: is not JSON ({error})") from None
    version = found.get("run_folder") if isinstance(found, dict) else None
    if version != VERSION:
        raise DataError(f"{path}: has version {version!r}, and this serq reads version {VERSION}")
    return dict(found)


# --- where expectations stand -----------------------------------------------------------------------------


def _places(places: Sequence[Place]) -> Plain:
    """Places and the texts that they are in."""
    spans = [[place.source.name, place.span.start, place.span.end] for place in places]
    return {"texts": {place.source.name: place.source.text for place in places}, "spans": spans}


def source_map(found: Plain) -> SourceMap | None:
    """Where the expectations of the program stand in its text, if it had one."""
    if "expected_at" not in found:
        return None
    texts = {name: SourceFile(name, text) for name, text in found["expected_at"]["texts"].items()}
    spans = found["expected_at"]["spans"]
    places = tuple(Place(texts[name], Span(start, end)) for name, start, end in spans)
    return SourceMap(places[0].source, {}, places)


# --- rows without loss ----------------------------------------------------------------------------------


def _written(value: Any) -> Any:
    """A figure in JSON, which has no word for what is not finite."""
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _row(row: Any, leave_out: Sequence[str] = ()) -> Plain:
    return {
        entry.name: _written(getattr(row, entry.name)) for entry in fields(row) if entry.name not in leave_out
    }


def row(kind: type[Row], plain: Mapping[str, Any]) -> Row:
    """The row of class ``kind`` that was written as ``plain``."""
    floats = {entry.name for entry in fields(kind) if entry.type == "float"}  # type: ignore[arg-type]
    return kind(**{name: float(value) if name in floats else value for name, value in plain.items()})


_TABLES_OF_ROWS: Final = ("table", "rows", "layout", "queue", "victims")


_COUNTS: Final = ("requests", "input_tokens", "output_tokens")


def _engine(figures: EngineFigures) -> Plain:
    latencies = {name: _row(getattr(figures, name)) for name in METRICS}
    counts = {name: getattr(figures, name) for name in _COUNTS}
    memory = figures.row.memory
    engine_row = _row(figures.row, (*_TABLES_OF_ROWS, "memory"))
    engine_row["memory"] = None if memory is None else _row(memory)
    return {"row": engine_row, **counts, "span": _written(figures.span), **latencies}


def _group(group: RequestGroup) -> Plain:
    latencies = {name: _row(getattr(group, name)) for name in METRICS}
    return {"name": group.name, "requests": group.requests, **latencies}


def families(figures: Mapping[str, Any]) -> list[RequestGroup]:
    """What the requests of stages with several members saw."""
    return [
        RequestGroup(
            found["name"], found["requests"], **{name: row(Latency, found[name]) for name in METRICS}
        )
        for found in figures["families"]
    ]


def engine(plain: Mapping[str, Any]) -> EngineFigures:
    """The figures of one engine; its steps are elsewhere."""
    options = tuple((name, value) for name, value in plain["row"]["options"])
    latencies = {name: row(Latency, plain[name]) for name in METRICS}
    counts = {name: plain[name] for name in _COUNTS}
    kept = plain["row"].get("memory")
    memory = None if kept is None else row(MemoryRow, kept)
    engine_row = row(
        EngineRow, {**plain["row"], "options": options, "table": StepTable(), "memory": memory}
    )
    of_requests: Plain = {**counts, **latencies}
    return EngineFigures(engine_row, span=float(plain["span"]), **of_requests)


def _price(price: PriceRow) -> Plain:
    ledger = price.ledger
    return {
        **_row(price, ("ledger", "settings", "origins")),
        "origins": [list(origin) for origin in price.origins],
        "settings": [list(setting) for setting in price.settings],
        "ledger": {"steps": ledger.steps, "seconds": _written(ledger.seconds)},
        "operators": {
            operator: {evidence.value: _written(seconds) for evidence, seconds in shares.items()}
            for operator, shares in ledger.operators.items()
        },
        "outside": [[*key, _row(row)] for key, row in ledger.outside.items()],
    }


def price_rows(figures: Mapping[str, Any]) -> list[PriceRow]:
    """What the steps of priced stages were made of."""
    return [_price_row(dict(plain)) for plain in figures["prices"]]


def _price_row(plain: Plain) -> PriceRow:
    ledger = row(PriceLedger, plain.pop("ledger"))
    for operator, shares in plain.pop("operators").items():
        ledger.operators[operator] = {Evidence(name): float(seconds) for name, seconds in shares.items()}
    for operator, dimension, outside in plain.pop("outside"):
        ledger.outside[operator, dimension] = row(OutsideRow, outside)
    settings = tuple(Setting(*setting) for setting in plain.pop("settings"))
    origins = tuple(Origin(*origin) for origin in plain.pop("origins", ()))
    return PriceRow(**plain, settings=settings, ledger=ledger, origins=origins)


def _warning(warning: Diagnostic) -> Plain:
    out = {name: getattr(warning, name) for name in ("code", "severity", "message", "help")}
    return {**out, "notes": list(warning.notes), "owner": warning.place}


def warning(plain: Mapping[str, Any]) -> Diagnostic:
    """A warning as it was written, without the line of the text that it was about."""
    return Diagnostic(
        plain["code"],
        plain["message"],
        severity=plain["severity"],
        help=plain["help"],
        notes=tuple(plain["notes"]),
        owner=plain["owner"],
    )


def summaries(figures: Mapping[str, Any]) -> dict[str, Summary]:
    """The figures of all observations."""
    return {name: row(Summary, plain) for name, plain in figures["observations"].items()}


def settling(figures: Mapping[str, Any]) -> Settling | None:
    """What is wrong with the warm-up."""
    return None if figures["settling"] is None else row(Settling, figures["settling"])


def stage_rows(figures: Mapping[str, Any]) -> list[StageRow]:
    """The figures of all stage members."""
    return [row(StageRow, plain) for plain in figures["stages"]]


def pool_rows(figures: Mapping[str, Any]) -> list[PoolRow]:
    """The figures of all pool members."""
    return [row(PoolRow, plain) for plain in figures["pools"]]


def connector_rows(figures: Mapping[str, Any]) -> list[ConnectorRow]:
    """The figures of all connectors."""
    return [row(ConnectorRow, plain) for plain in figures.get("connectors", ())]


def gauge_rows(figures: Mapping[str, Any]) -> list[GaugeRow]:
    """The figures of all gauges."""
    return [row(GaugeRow, plain) for plain in figures["gauges"]]
